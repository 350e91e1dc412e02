"""Texts of the panes: details, panels, plot, failures, undo, arrangement. No terminal."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.style import Style

import sessions
from kerneltui.records import (
    CallState,
    Idea,
    Outcome,
    SessionState,
    Settings,
    Speedup,
    Stage,
    Tree,
    Variant,
    VariantState,
    Worker,
)
from kerneltui.store import Store
from kerneltui.tui import details, diffs, panels, syntax, timings, typed, words
from kerneltui.tui.actions import (
    FOOTER,
    FOOTER_DETAIL,
    FOOTER_DETAIL_REST,
    FOOTER_LAST,
    FOOTER_PANES,
    FOOTER_TABS,
    by_id,
)
from kerneltui.tui.arrange import Pane, arrange, too_small
from kerneltui.tui.clip import clip, clip_marked
from kerneltui.tui.details import Tab
from kerneltui.tui.model import Loaded, Model
from kerneltui.tui.outline import Outline
from kerneltui.tui.render import ASCII, UNICODE
from kerneltui.tui.screens.compare import in_short
from kerneltui.tui.screens.listing import fitting_keys
from kerneltui.tui.signatures import group_failures, signature
from kerneltui.tui.widgets.linelist import Line
from kerneltui.tui.widgets.plot import Point, plot_lines, points, scale_note, scale_of


def text(lines: list[Line]) -> str:
    return "\n".join(line if isinstance(line, str) else "".join(part for part, _ in line) for line in lines)


@pytest.fixture
def model(session: Path) -> Iterator[Model]:
    with Store.open(session) as store:
        outline = Outline(store.read_tree())
        outline.layout()
        loaded = Loaded(outline=outline, events=store.read_events(), pending=[], problem=store.read_problem(),
                        contract=store.read_contract(), prepared=store.read_prepared())  # fmt: skip
    made = Model.open(session, loaded)
    yield made
    made.store.close()


def best(model: Model) -> Variant:
    return model.tree.variants[model.tree.status.best or ""]


@pytest.mark.parametrize(
    ("width", "shown"), [(80, "aa x bb y esc back"), (22, "aa x bb y esc back"), (20, "aa x esc back"), (5, "esc back")]
)
def test_the_way_out_is_always_among_the_keys(width: int, shown: str) -> None:
    spans = fitting_keys((("aa", "x"), ("bb", "y"), ("esc", "back")), width)
    assert shown == " ".join(part.strip() for part, _ in spans)


def test_ages_are_coarse() -> None:
    assert ["now", "1 min ago", "59 min ago", "5 h ago", "3 d ago"] == [
        words.ago_text(seconds) for seconds in (3, 60, 3599, 5 * 3600 + 59, 3 * 86400)
    ]


def test_an_author_that_waits_says_until_when(model: Model) -> None:
    status, now = model.tree.status, time.time()
    held = [Worker(name=f"author gemini {n}", doing="ideas", node=f"i00{n}", until=now + 12) for n in (1, 2)]
    model.tree.status = replace(status, workers=(*status.workers, *held, replace(held[0], until=now - 1)))
    shown = text(panels.workers(model, UNICODE, now, 80))
    assert " gemini waits 00:12 (rate limit)  i001, i002\n" in shown and 1 == shown.count("author gemini 1")
    _, right = panels.header(model, UNICODE, frozen=False, now=now, width=80)
    assert "gemini waits 00:12" in text([right])
    assert "openai" == words.author_label(Worker(name="author openai"))


def test_time_tab(model: Model) -> None:
    shown = text(timings.time_lines(model.subject(best(model)), UNICODE, 80))
    for wanted in ("0.968× eager", "compile", "60% of what this device can do", "128, each the mean of 512 launches, 2 disturbed",
                   "method       graph, ring of 3 inputs", "sm 1755 MHz", "█"):  # fmt: skip
        assert wanted in shown


def test_time_tab_fits_a_narrow_pane(model: Model) -> None:
    for width in (48, 60, 78, 120):
        shown = timings.time_lines(model.subject(best(model)), UNICODE, width)
        assert all(len(text([line])) <= width for line in shown)


def test_time_tab_of_a_failure_says_why_there_is_none(model: Model) -> None:
    failed = next(v for v in model.tree.variants.values() if v.outcome is Outcome.TIMEOUT)
    assert (
        text(timings.time_lines(model.subject(failed), UNICODE, 80))
        == " FAIL timeout at launch\n no answer after 20 s\n\n Not timed."
    )


def test_trust_tab_puts_what_matters_first(model: Model) -> None:
    shown = text(timings.trust_lines(model.subject(best(model)), 80)).split("\n")
    assert shown[0] == " measured"
    assert shown[1].split() == ["5", "pass", "1", "note", "1", "skipped"]
    assert [line.split()[0] for line in shown[3:10]] == ["note", "pass", "pass", "pass", "pass", "pass", "none"]


def test_log_tab_finds_the_errors(model: Model) -> None:
    failed = next(v for v in model.tree.variants.values() if v.outcome is Outcome.COMPILE_ERROR and "27" in v.message)
    lines, errors = details.log_lines(model.subject(failed), 80)
    assert ["error" in text([lines[row]]) for row in errors] == [True, True]


def test_log_tab_of_a_mismatch_shows_where_it_is_wrong(model: Model) -> None:
    failed = next(v for v in model.tree.variants.values() if v.outcome is Outcome.MISMATCH)
    shown = text(details.log_lines(model.subject(failed), 80)[0])
    for wanted in (
        "8,192 of 268,435,456 wrong",
        "random 2",
        "every 32nd column",
        "[17, 32] expected 1.52e-05, found 0.31",
        "1e-1..1",
    ):
        assert wanted in shown


def test_idea_tab_shows_the_way_with_its_gains(model: Model) -> None:
    variant = best(model)
    shown = text(details.idea_lines(model, model.tree.ideas[variant.idea or ""], variant, UNICODE, 80))
    assert "expected     1.1 to 1.3 times faster" in shown
    way = shown[shown.index("the way here") :].split("\n")[1:]
    assert [line.split()[0] for line in way] == [step.id for step in model.lineage(variant)]
    assert "%" in way[1] and way[1].split()[2].startswith("+")


def test_prompt_tab_shows_what_was_sent_and_what_it_cost(model: Model) -> None:
    call = next(iter(model.tree.calls))
    shown = text(details.prompt_lines(model.call(call), 80))
    for wanted in ("4,200 in + 1,900 out + 800 reasoning", "$0.02, 18.4 s", "Propose ideas for softmax.", "prompt, "):
        assert wanted in shown
    cheap = replace(model.call(call), cost_usd=0.0024)
    assert "$0.0024, 18.4 s" in text(details.prompt_lines(cheap, 80))
    assert "nothing was sent" in text(details.prompt_lines(None, 80))


def test_unknown_cost_is_not_nothing(model: Model) -> None:
    call = next(iter(model.tree.calls.values()))
    model.tree.calls[call.id] = replace(call, cost_usd=None)
    assert words.spend_text(model.tree) == "$0.15+?/25"
    model.tree.calls[call.id] = replace(call, cost_usd=None, reserved_usd=0.5, state=CallState.RESERVED)
    assert words.spend(model.tree)[1:] == (False, 0.5)


@pytest.mark.parametrize(
    ("us", "shown"),
    [
        (0.5, "0.50 µs"),
        (9.999, "10.0 µs"),
        (61.23, "61.2 µs"),
        (999.7, "1.00 ms"),
        (1234.5, "1.23 ms"),
        (2.5e6, "2.50 s"),
        (None, ""),
    ],
)
def test_times_have_three_digits(us: float | None, shown: str) -> None:
    assert words.time_text(us, UNICODE) == shown


def test_an_engine_is_gone_only_if_both_signs_fail(model: Model) -> None:
    status = model.tree.status
    now = time.time()
    for heartbeat, alive, gone in (
        (now, True, False),
        (now, False, False),
        (now - 60, True, False),
        (now - 60, False, True),
    ):
        model.tree.status, model.engine_alive = replace(status, heartbeat=heartbeat), alive
        assert model.engine_gone(now) is gone
    model.tree.status = replace(status, heartbeat=now - 60, state=SessionState.FINISHED)
    assert not model.engine_gone(now)


def test_a_slow_heartbeat_is_said_in_the_header(model: Model) -> None:
    now = time.time()
    model.tree.status = replace(model.tree.status, heartbeat=now - 5)
    left, right = panels.header(model, UNICODE, frozen=False, now=now, width=160)
    assert " lag 5s " in [part for part, _ in right]
    assert " RUN" in [part for part, _ in left]


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_the_footer_fits_and_always_shows_the_way_out(width: int) -> None:
    for pane, tab in [(pane, "") for pane in Pane] + [(Pane.DETAIL, str(tab)) for tab in Tab]:
        shown = "".join(part for part, _ in panels.footer(width, pane, tab))
        assert len(shown) <= width
        assert shown.endswith(" q quit  : commands  ? keys ")
        assert pane is Pane.TREE or shown.startswith(" esc back ")


def test_every_key_of_a_footer_has_a_name_and_every_tab_its_own() -> None:
    ids = (*FOOTER, *FOOTER_DETAIL, *FOOTER_DETAIL_REST, *FOOTER_LAST)
    assert all(
        by_id(id).short and by_id(id).keys
        for id in (*ids, *itertools.chain(*FOOTER_TABS.values(), *FOOTER_PANES.values()))
    )
    assert set(FOOTER_TABS) == {str(tab) for tab in Tab}
    assert "hunk" not in "".join(part for part, _ in panels.footer(160, Pane.DETAIL, Tab.CODE))


def test_plot_steps_up_and_never_down(model: Model) -> None:
    found = points(model.outline)
    assert [point.best for point in found] == sorted(point.best for point in found)
    lines = plot_lines(found, 70, 12, UNICODE)
    assert len(lines) == 12 and all(len("".join(part for part, _ in line)) <= 71 for line in lines)
    assert text(lines).count("╯") == text(lines).count("╭") == 1
    assert text(plot_lines(found, 70, 12, ASCII)).isascii()
    assert plot_lines(found, 15, 12, UNICODE) == [] == plot_lines([], 70, 12, UNICODE)


def test_plot_of_nothing_and_of_one_flat_round() -> None:
    tree = Tree(settings=Settings(problem="softmax"))
    assert points(Outline(tree)) == []
    tree.ideas["i001"] = Idea(id="i001", round=1)
    row, _ = sessions.judged(Variant(id="v00001", idea="i001", round=1), sessions.EAGER_US, random.Random(1))
    tree.variants["v00001"] = row
    outline = Outline(tree)
    outline.layout()
    assert len(plot_lines(points(outline), 40, 8, UNICODE)) == 8


@pytest.mark.parametrize(
    ("fast", "slow", "said"),
    [
        ((1000.0, 2.0), (2000.0, 1.0), ["v1 is 2.00× as fast as v2, each in pairs with eager"]),
        ((1000.0, 2.0), (900.0, 1.0), ["v1 is 2.00× as fast as v2", "times alone say otherwise"]),
        ((1000.0, 1.0), (1000.0, 0.999), ["v1 is 1.00× as fast as v2", "the intervals overlap"]),
        ((1000.0, None), (1500.0, None), ["v1 is 1.50× as fast as v2"]),
    ],
)
def test_compare_in_short(fast: tuple[float, float | None], slow: tuple[float, float | None], said: list[str]) -> None:
    def timed(id: str, median_us: float, ratio: float | None) -> Variant:
        speedup = Speedup(ratio=ratio, low=ratio * 0.99, high=ratio * 1.01, tie=False) if ratio else None
        return Variant(id=id, idea=None, round=1, outcome=Outcome.CORRECT, median_us=median_us, speedup=speedup)

    shown = text(in_short(timed("v2", *slow), timed("v1", *fast), UNICODE)).splitlines()
    assert len(shown) == len(said) and all(each in line for each, line in zip(said, shown, strict=True))


def test_a_ratio_that_is_a_tie_says_so_without_colour() -> None:
    speedup = Speedup(ratio=1.12, low=1.05, high=1.19, tie=True)
    variant = Variant(id="v1", idea=None, round=1, outcome=Outcome.CORRECT, median_us=1.0, speedup=speedup)
    assert ["≈1.12×", "~1.12x"] == [words.ratio_text(variant, glyphs) for glyphs in (UNICODE, ASCII)]
    clear = replace(variant, speedup=replace(speedup, tie=False))
    assert "1.12×" == words.ratio_text(clear, UNICODE)


def test_no_two_marks_of_the_axis_read_alike(model: Model) -> None:
    for height in range(6, 40):
        labels = [line[0][0].strip() for line in plot_lines(points(model.outline), 70, height, UNICODE)]
        assert len([label for label in labels if label]) == len({label for label in labels if label})


@pytest.mark.parametrize("state", [SessionState.PAUSED, SessionState.STOPPED, SessionState.FINISHED])
def test_a_search_that_rests_says_how_it_goes_on(model: Model, state: SessionState) -> None:
    model.tree.status = replace(model.tree.status, state=state, reason="")
    assert (" resumes" if state is SessionState.PAUSED else " goes on") in text(
        panels.banner(model, "", UNICODE, time.time(), 80, "")
    )


def test_signatures_mask_what_differs_by_chance() -> None:
    def failed(message: str) -> Variant:
        return Variant(
            id="v1",
            idea=None,
            round=1,
            state=VariantState.DONE,
            outcome=Outcome.COMPILE_ERROR,
            stage=Stage.COMPILE,
            message=message,
        )

    assert (
        signature(failed('/tmp/x-17/kernel.cu(27): error: identifier "block_sum" is undefined'))
        == "FILE: error: identifier ? is undefined"
    )
    assert (
        signature(failed("kernel.cu(3): error: identifier 'other' is undefined"))
        == "FILE: error: identifier ? is undefined"
    )
    assert signature(failed("")) == "compile"


def test_groups_of_failures(model: Model) -> None:
    groups = group_failures(model.tree.variants.values(), model.tree.ideas)
    assert sum(len(group.variants) for group in groups) == 14
    assert [len(group.variants) for group in groups] == sorted((len(group.variants) for group in groups), reverse=True)


def test_diff_counts_and_hunks() -> None:
    before = "\n".join(f"line {n}" for n in range(40))
    after = before.replace("line 5\n", "line five\n").replace("line 30\n", "")
    diff = diffs.make_diff(before, after)
    assert (diff.added, diff.removed, len(diff.hunks)) == (1, 2, 2)
    assert text([diff.lines[0]]) == "@@ -3,7 +3,7 @@"
    assert "    6      - line 5" in text(diff.lines) and "         6 + line five" in text(diff.lines)
    assert text(diffs.make_diff("a\n", "a\n").lines) == " the same text"


def test_colours_keep_the_text() -> None:
    from kerneltui.records import Language

    source = sessions.SOURCE.format(title="試し [red] \\", block=1, number=2) + "\n\n  unended /* comment"
    coloured = syntax.colour(source, Language.CUDA)
    assert text(coloured) == source
    assert {token for line in coloured for _, token in line} >= {"comment", "keyword", "preprocessor"}


@pytest.mark.parametrize(
    ("line", "left", "width", "shown"),
    [("abcdef", 2, 3, "cde"), ("試し書き", 1, 4, " し "), ([("ab", "ok"), ("cd", "fail"), ("ef", "")], 1, 4, "bcde"),
     ([("試", "ok"), ("ab", "")], 2, 5, "ab"), ("", 0, 5, "")],
)  # fmt: skip
def test_clip_cuts_by_cells(line: Line, left: int, width: int, shown: str) -> None:
    from rich.style import Style

    assert "".join(segment.text for segment in clip(line, left, width, lambda token: Style())) == shown


@pytest.mark.parametrize(
    ("line", "payload"),
    [("rounds +2", {"rounds": 8}), ("usd $40", {"usd": 40}), ("usd +15", {"usd": 40}), ("wall 2h30m", {"wall_s": 9000}), ("time 90m", {"wall_s": 5400}),
     ("target 1.5", {"target_speedup": 1.5}), ("tokens 2,000", {"tokens": 2}), ("usd off, rounds 3", {"usd": None, "rounds": 3})],
)  # fmt: skip
def test_budgets_in_words(line: str, payload: dict[str, object]) -> None:
    made = sessions.settings()
    if "2,000" in line:
        with pytest.raises(ValueError, match="'000' is no budget"):
            typed.read_budget(line, made.rounds, made.budget)
        return
    assert typed.read_budget(line, made.rounds, made.budget) == payload


@pytest.mark.parametrize("line", ["", "usd", "usd many", "beer 3", "rounds off", "wall 2x"])
def test_budgets_that_cannot_be_read(line: str) -> None:
    made = sessions.settings()
    with pytest.raises(ValueError, match=r"such as|wants a number|is no budget"):
        typed.read_budget(line, made.rounds, made.budget)


def test_arrangement_by_size() -> None:
    def shown(width: int, height: int, pane: Pane = Pane.TREE, zoomed: bool = False) -> set[Pane]:
        return set(arrange(width, height, pane, zoomed=zoomed, lower=Pane.PLOT).shown)

    assert shown(160, 48) == set(Pane)
    assert shown(140, 36) == set(Pane)
    assert shown(110, 32) == {Pane.TREE, Pane.DETAIL, Pane.PLOT}
    assert shown(110, 26) == {Pane.TREE, Pane.DETAIL}
    assert shown(80, 24) == {Pane.TREE}
    assert [shown(80, 24, pane) for pane in Pane] == [{pane} for pane in Pane]
    assert shown(160, 48, Pane.DETAIL, True) == {Pane.DETAIL}
    assert [too_small(60, 16), too_small(59, 16), too_small(60, 15)] == [False, True, True]


def test_a_slow_first_round_does_not_squeeze_the_plot(model: Model) -> None:
    slow = [Point(round=1, best=0.04, own=0.04, mark="+")]
    found = slow + [Point(round=2 + n, best=0.9 + n / 10, own=0.9 + n / 10, mark="+") for n in range(4)]
    assert scale_of(found, 10).low > 0.8
    assert "not drawn: start 0.02×, r1 0.04×" == scale_note(found, 0.02, UNICODE)
    drawn = plot_lines(found, 70, 12, UNICODE)
    assert "0.04" not in text(drawn)
    assert len({scale_of(found, 10).level(point.best) for point in found[1:]}) == 4


def test_a_wide_range_is_shown_in_ratios() -> None:
    found = [Point(round=n, best=float(2**n), own=float(2**n), mark="+") for n in range(1, 7)]
    scale = scale_of(found, 13)
    assert "log scale" == scale_note(found, None, UNICODE)
    steps = [scale.level(2.0**n) - scale.level(2.0 ** (n + 1)) for n in range(1, 6)]
    assert max(steps) - min(steps) <= 1
    assert "" == scale_note([Point(round=1, best=0.9, own=0.9, mark="+")], None, UNICODE)


def test_a_line_that_goes_on_beyond_the_edge_says_so() -> None:
    def shown(line: Line, left: int, width: int) -> str:
        return "".join(part.text for part in clip_marked(line, left, width, lambda token: Style(), "…"))

    assert "float…" == shown("float x[4096];", 0, 6)
    assert "96];" == shown("float x[4096];", 10, 6)
    assert "float" == shown("float", 0, 5)
    assert "// 数…" == shown([("// ", "comment"), ("数数", "comment")], 0, 6)
