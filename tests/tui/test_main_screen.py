"""The main screen, driven with keys on a made-up session."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import OpenApp, screen_text, wait_for
from textual.widgets import Input, TextArea

import sessions
from kerneltui.cli import group
from kerneltui.records import DecisionKind, IdeaStatus, Outcome, SessionState, Stage, Variant, VariantState, Verdict
from kerneltui.store import Store
from kerneltui.tui.actions import ACTIONS
from kerneltui.tui.details import Tab
from kerneltui.tui.screens.home import HomeScreen
from kerneltui.tui.screens.main import MainScreen

SIZES = [(80, 24), (100, 30), (160, 48)]


def decisions(folder: Path) -> list[tuple[str, str]]:
    with Store.open(folder) as store:
        return [(str(d.kind), d.target) for d in store.read_decisions()]


@pytest.mark.parametrize(("width", "height"), SIZES)
async def test_everything_that_matters_is_on_the_screen(
    session: Path, open_app: OpenApp, width: int, height: int
) -> None:
    async with open_app(session, width, height) as pilot:
        text = screen_text(pilot)
        best = pilot.app.screen.model.tree.status.best
        for wanted in ("softmax", "RUN round 4/6", f"best 0.97× {best}", "1 Tree", "56 variants", "round 1", "? keys"):
            assert wanted in text
        assert all(len(line) <= width for line in text.split("\n"))
        for wanted in ("3 Best speed-up by round", "4 Workers", "5 Budget", "6 Events"):
            assert (wanted in text) == (width == 160 or (width == 100 and wanted.startswith("3")))


async def test_columns_line_up(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        tree = pilot.app.screen.tree_list
        ends = set()
        for y in range(tree.view.height):
            text = tree.render_line(y).text
            if "×" in text:
                ends.add(text.index("×"))
        assert len(ends) == 1


async def test_the_star_leaves_a_row_that_nothing_else_changed(
    session: Path, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(session) as pilot:
        tree = pilot.app.screen.tree_list
        painted: set[int] = set()
        repaint = tree.repaint_rows

        def noting(rows: Iterable[int]) -> None:
            rows = list(rows)
            painted.update(rows)
            repaint(rows)

        monkeypatch.setattr(tree, "repaint_rows", noting)

        def starred() -> list[str]:
            lines = screen_text(pilot).split("\n")
            return [found.group() for line in lines if "*" in line[:80] and (found := re.search(r"v\d{5}", line))]

        status = tree.model.tree.status
        (first,) = starred()
        assert first == status.best
        other = next(v.id for v in tree.model.tree.correct() if v.id != first and v.id in screen_text(pilot))
        with Store.open(session, write=True) as store:
            store.put_status(replace(status, best=other))
        await wait_for(pilot, lambda: tree.model.tree.status.best == other)
        await pilot.pause(0.3)
        assert [other] == starred()
        # What a terminal has been sent is what was painted anew.
        outline, variants = tree.model.outline, tree.model.tree.variants
        assert {outline.index(first), outline.index(other)} <= painted
        # The rows that count them: an earlier round's figures change as well, when a variant of it is measured again.
        groups = {group for v in (first, other) for group in (variants[v].idea, f"r{variants[v].round}")}
        assert {outline.index(group) for group in groups if group} <= painted


@pytest.mark.parametrize(("width", "height"), [(59, 20), (70, 15), (10, 3), (1, 1)])
async def test_too_small_is_a_sentence(session: Path, open_app: OpenApp, width: int, height: int) -> None:
    async with open_app(session, width, height) as pilot:
        if width > 40:
            assert f"needs 60x16, have {width}x{height}" in screen_text(pilot)
        await pilot.resize_terminal(100, 30)
        await pilot.pause(0.2)
        assert "1 Tree" in screen_text(pilot)


async def test_prune_is_sent_at_once_and_undone(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        id = pilot.app.screen.current.id
        await pilot.press("x")
        assert f"pruned {id}; z undoes" in screen_text(pilot)
        await pilot.press("z")
        await pilot.press("Z")
    assert decisions(session) == [("prune", id), ("restore", id), ("prune", id)]


async def test_what_was_done_elsewhere_is_undone_here_and_too_late_is_said(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        model = pilot.app.screen.model
        model.decide(DecisionKind.PRUNE, "i013")
        await pilot.press("z")
        assert "undone: prune i013" in screen_text(pilot)
        await pilot.press("z")
        assert "nothing to undo in this round" in screen_text(pilot)
        pilot.app.screen.tree_list.go_to("i014")
        await pilot.press("x")
        with Store.open(session, write=True) as store:
            store.put_status(replace(store.read_tree().status, round=5))
        await wait_for(pilot, lambda: model.tree.status.round == 5)
        await pilot.press("z")
        assert "too late: round 5 began without i014; X restores it" in screen_text(pilot)
    assert decisions(session) == [("prune", "i013"), ("restore", "i013"), ("prune", "i014")]


async def test_an_open_decision_is_shown_on_its_row(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        await pilot.press("x")
        await wait_for(pilot, lambda: "prune asked" in screen_text(pilot))


async def test_marks_make_acts_apply_to_many(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        screen = pilot.app.screen
        await pilot.press("space", "space")
        marked = sorted(screen.model.marks)
        await pilot.press("x")
    assert decisions(session) == [("prune", id) for id in marked] and len(marked) == 2


async def test_pin_and_pause(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        id = pilot.app.screen.current.id
        await pilot.press("p", "P")
    assert decisions(session) == [("unpin", id), ("pause", "")]  # the best of the made-up session is pinned


async def test_quit_leaves_the_search_alone(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        await pilot.press("q")
        assert pilot.app.return_code == 0
    assert decisions(session) == []


async def test_stop_asks_and_no_is_the_answer_to_anything_but_y(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        await pilot.press("Q")
        assert "Stop the search and close? It cuts off v00045 timing" in screen_text(pilot)
        await pilot.press("enter")
        assert decisions(session) == []
        await pilot.press("Q", "d")
        assert "drain asked" in screen_text(pilot)
        await pilot.press("Q", "y")
    assert decisions(session) == [("stop", ""), ("stop", "")]


async def test_a_whole_round_is_asked_about_and_a_cap_below_what_is_used(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        screen = pilot.app.screen
        screen.tree_list.go_to("r1")
        await pilot.press("x")
        assert "of all 4 ideas of round 1?  y yes" in screen_text(pilot)
        await pilot.press("n", "b")
        pilot.app.screen.query_one(Input).value = "usd +15, rounds 2"
        await wait_for(pilot, lambda: "$25.00 to $40.00" in screen_text(pilot))
        assert "stops now: 4 rounds are used" in screen_text(pilot)
        await pilot.press("enter", "n")
        assert decisions(session) == []
        screen.act("engine.budget", "usd +15")
    assert decisions(session) == [("budget", "")]


async def test_edit_an_idea_in_the_built_in_editor(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        idea = pilot.app.screen.hands.idea()
        await pilot.press("e")
        area = pilot.app.screen.query_one(TextArea)
        area.load_text("A better title\n\nwith [brackets] and [/")
        await pilot.press("ctrl+o")
        await pilot.pause()
        with Store.open(session) as store:
            decision = store.read_decisions()[-1]
    assert (decision.kind, decision.target) == (DecisionKind.EDIT, idea.id)
    assert decision.payload == {"title": "A better title", "text": "with [brackets] and [/"}


async def test_escape_keeps_the_draft(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        await pilot.press("e")
        pilot.app.screen.query_one(TextArea).load_text("half a thought")
        await pilot.pause(0.1)
        await pilot.press("escape")
        await pilot.press("e")
        assert pilot.app.screen.query_one(TextArea).text == "half a thought"
    assert decisions(session) == []


async def test_inject_from_a_file(session: Path, open_app: OpenApp, tmp_path: Path) -> None:
    kernel = tmp_path / "mine.cu"
    kernel.write_text("// mine\n", encoding="utf-8")
    async with open_app(session) as pilot:
        await pilot.press("i")
        assert "softmax(" in pilot.app.screen.query_one(TextArea).text  # the skeleton of the contract
        pilot.app.screen.query_one("#editor-path", Input).value = str(kernel)
        await pilot.press("enter")
        await pilot.pause()
        await pilot.press("ctrl+o")
        await pilot.pause()
        with Store.open(session) as store:
            decision = store.read_decisions()[-1]
    assert decision.payload == {"source": "// mine\n", "language": "cuda", "name": "mine.cu", "parent": ""}


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "is empty"), (b"\0\1", "is binary"), (b"x" * 2_100_000, "has 2 MB")]
)
async def test_inject_refuses_what_is_no_kernel(
    session: Path, open_app: OpenApp, tmp_path: Path, content: bytes, said: str
) -> None:
    kernel = tmp_path / "bad.cu"
    kernel.write_bytes(content)
    async with open_app(session) as pilot:
        pilot.app.screen.act("kernel.inject", str(kernel))
        assert said in screen_text(pilot)
    assert decisions(session) == []


async def test_undo_of_an_inject_prunes_what_it_became(session: Path, open_app: OpenApp, tmp_path: Path) -> None:
    from kerneltui.records import DecisionState

    kernel = tmp_path / "mine.cu"
    kernel.write_text("// mine\n", encoding="utf-8")
    async with open_app(session) as pilot:
        screen = pilot.app.screen
        screen.act("kernel.inject", str(kernel))
        screen.act("edit.undo")
        assert "has not taken it up yet" in screen_text(pilot)
        with Store.open(session, write=True) as store:
            store.finish_decision(store.read_decisions()[-1].id, DecisionState.DONE, "injected as v00099")
        screen.act("edit.undo")
    assert decisions(session) == [("inject", ""), ("prune", "v00099")]


async def test_the_filter_can_be_typed_with_every_bound_letter(session: Path, open_app: OpenApp) -> None:
    letters = sorted({key for action in ACTIONS for key in action.keys if len(key) == 1 and key.isalpha()})
    async with open_app(session, 100, 30) as pilot:
        await pilot.press("slash", *letters)
        assert pilot.app.screen.query_one("#filter", Input).value == "".join(letters)
    assert decisions(session) == []


async def test_filter_shows_matches_and_says_what_is_wrong(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        screen = pilot.app.screen
        screen.set_filter("state:fail")
        await pilot.pause()
        assert "14 of 56 variants" in screen_text(pilot)
        screen.set_filter("code:/warp_m.x/ state:fail")
        await wait_for(pilot, lambda: "code:/warp" in screen_text(pilot))
        assert "14 of 56 variants" in screen_text(pilot)
        screen.set_filter("state:fail")
        screen.set_filter("stat:fail")
        await pilot.pause()
        text = screen_text(pilot)
        assert "no filter called stat:; did you mean state?" in text and "14 of 56 variants" in text


async def test_tabs_follow_the_variant(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        screen = pilot.app.screen
        failed = next(v for v in screen.model.tree.variants.values() if v.outcome is Outcome.COMPILE_ERROR)
        screen.tree_list.go_to(failed.id)
        screen.show_detail()
        await pilot.pause()
        assert "[Log]" in screen_text(pilot) and 'identifier "block_sum" is undefined' in screen_text(pilot)
        screen.tree_list.go_to(screen.model.tree.status.best)
        screen.show_detail()
        await wait_for(pilot, lambda: "#include" in screen_text(pilot))
        for wanted, tab in (("percentiles", "view.times"), ("hunks", "view.diff")):
            screen.act(tab)
            await wait_for(pilot, lambda wanted=wanted: wanted in screen_text(pilot))


async def test_live_changes_arrive_and_the_cursor_stays(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        screen = pilot.app.screen
        before = screen.current.id
        with Store.open(session, write=True) as store:
            tree = store.read_tree()
            running = next(v for v in tree.variants.values() if v.state is VariantState.RUNNING)
            row, verdict = sessions.judged(running, 2000.0, sessions.random.Random(1))
            store.add_verdict(row, verdict)
            store.put_status(replace(tree.status, best=running.id))
            store.add_event("engine", "best", "new best, out of the blue", running.id)
        await wait_for(pilot, lambda: "out of the blue" in screen_text(pilot))
        assert f"best {sessions.EAGER_US / 2000:.2f}× {running.id}" in screen_text(pilot)
        assert screen.current.id == before


async def test_a_second_verdict_replaces_the_first_and_the_cursor_stays_in_sight(
    session: Path, open_app: OpenApp
) -> None:
    async with open_app(session, 80, 24) as pilot:
        await pilot.press("B")
        tree = pilot.app.screen.tree_list
        here = tree.current.id
        assert "2.98 ms" in "".join(screen_text(pilot).splitlines()[-6:])
        with Store.open(session, write=True) as store:
            variant = store.read_tree().variants[here]
            store.add_verdict(*sessions.judged(variant, 4444.0, sessions.random.Random(1)))
        await wait_for(pilot, lambda: "4.44 ms" in "".join(screen_text(pilot).splitlines()[-6:]))
        assert tree.current.id == here
        assert 0 <= tree.cursor - round(tree.scroll_y) < tree.view.height  # another order has moved its row


async def test_a_pane_alone_names_the_way_back_and_its_own_keys(session: Path, open_app: OpenApp) -> None:
    async with open_app(session, 80, 24) as pilot:
        await pilot.press("5")
        await wait_for(pilot, lambda: " esc back  b budget  $ spend" in screen_text(pilot))
        await pilot.press("escape", "B", "d", "right_square_bracket")
        await wait_for(pilot, lambda: "n next error" in screen_text(pilot).splitlines()[-1])
        await pilot.press("left_square_bracket")
        await wait_for(pilot, lambda: "} hunk  D diff base" in screen_text(pilot).splitlines()[-1])


async def test_the_start_of_a_filter_name_does_not_empty_the_tree(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        await pilot.press("slash", *"sta")
        await wait_for(pilot, lambda: "state:, stage:?" in screen_text(pilot))
        assert pilot.app.screen.model.outline.rows
        await pilot.press("enter")
        assert pilot.app.screen._filter_text == "sta"


async def test_a_filter_that_is_given_up_leaves_the_cursor_where_it_was(session: Path, open_app: OpenApp) -> None:
    async with open_app(session, 80, 24) as pilot:
        await pilot.press("B", "j", "j")
        here = pilot.app.screen.current.id
        await pilot.press("slash", *"zzzz")
        assert pilot.app.screen.current is None
        await pilot.press(*["backspace"] * 4, *f"id:{here}")
        assert pilot.app.screen.current.id == here
        assert screen_text(pilot).splitlines()[-1].strip() == "enter keeps the filter  esc drops it"
        await pilot.press("escape")
        await wait_for(pilot, lambda: pilot.app.screen.current is not None and pilot.app.screen.current.id == here)
        assert screen_text(pilot).splitlines()[-1].startswith(" enter open")
        assert here in screen_text(pilot).splitlines()[-6] and "match" not in screen_text(pilot).splitlines()[-2]


async def test_help_of_a_screen_begins_with_its_own_keys_and_explains_the_tree(
    session: Path, open_app: OpenApp
) -> None:
    async with open_app(session, 80, 24) as pilot:
        await pilot.press("f", "question_mark")
        await wait_for(pilot, lambda: "lesson for prompts" in screen_text(pilot).split("And in a session")[0])
        await pilot.press("G")
        await wait_for(pilot, lambda: "registers of a thread" in screen_text(pilot))


async def test_a_listing_fits_itself_to_another_size(tmp_path: Path, open_app: OpenApp) -> None:
    folder = sessions.small_session(tmp_path / "sessions" / "softmax")
    async with open_app(folder, 80, 24) as pilot:
        await pilot.press("f")
        await wait_for(pilot, lambda: "uses too much s…" in screen_text(pilot))
        await pilot.resize_terminal(140, 40)
        await wait_for(pilot, lambda: "uses too much shared data" in screen_text(pilot).split("Examples")[0])


async def test_a_frozen_view_does_not_move(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        await pilot.press("F")
        with Store.open(session, write=True) as store:
            store.add_event("engine", "best", "out of the blue")
        await pilot.pause(0.8)
        assert "FROZEN" in screen_text(pilot) and "out of the blue" not in screen_text(pilot)
        await pilot.press("F")
        await wait_for(pilot, lambda: "out of the blue" in screen_text(pilot))


async def test_a_gone_engine_is_said_with_the_key_that_helps(tmp_path: Path, open_app: OpenApp) -> None:
    folder = sessions.small_session(tmp_path / "gone", alive=False)
    (folder / "engine.log").write_text("starting\nCUDA driver error 46 on gpu3\n", encoding="utf-8")
    async with open_app(folder, 80, 24) as pilot:
        text = screen_text(pilot)
        assert "ENGINE GONE" in text and "Nothing was lost.  S starts it again" in text


async def test_notices_are_in_sight(tmp_path: Path, open_app: OpenApp) -> None:
    said = "No GPU here: searching C++ kernels on the CPU. For CUDA: an NVIDIA driver."
    folder = sessions.small_session(tmp_path / "cpu", notices=(said,))
    async with open_app(folder, 80, 24) as pilot:
        assert said in screen_text(pilot)


async def test_a_session_that_never_ran(tmp_path: Path, open_app: OpenApp) -> None:
    folder = tmp_path / "new"
    Store.create(folder, sessions.settings(), sessions.problem()).close()
    async with open_app(folder) as pilot:
        text = screen_text(pilot)
        assert "No engine has run here yet. S starts the search" in text and "No time to plot yet." in text
        await pilot.press("x", "p", "e", "r", "d", "n", "B", "enter", "space", "v", "c")
        assert pilot.app.return_code is None
    assert decisions(folder) == []


async def test_a_session_that_is_not_there(tmp_path: Path, open_app: OpenApp) -> None:
    from kerneltui.tui.app import KernelTui

    app = KernelTui(tmp_path / "nowhere", theme="kt-dark")
    async with app.run_test(size=(160, 24)) as pilot:
        await wait_for(pilot, lambda: "no session here" in screen_text(pilot))
        await pilot.press("q")
        assert app.return_code == 0


async def test_square_brackets_and_escapes_are_shown_as_they_are(tmp_path: Path, open_app: OpenApp) -> None:
    """Model and compiler text in every place where it can stand."""
    brackets = (Path(__file__).parent / "brackets.log").read_text(encoding="utf-8")
    escapes = (Path(__file__).parent / "escapes.log").read_bytes().decode("utf-8", "replace")
    folder = sessions.small_session(tmp_path / "[red]softmax[")
    title = "[red] [/] [/red] [b + [@click=app.quit]quit[/]"
    with Store.open(folder, write=True) as store:
        tree = store.read_tree()
        best = tree.variants[tree.status.best or ""]
        store.put_ideas([replace(tree.ideas[best.idea or ""], title=title, text=brackets, note=title)])
        row = replace(best, outcome=Outcome.COMPILE_ERROR, stage=Stage.COMPILE, message=title, note=title, name=title)
        verdict = Verdict(outcome=Outcome.COMPILE_ERROR, stage=Stage.COMPILE, message=title, log=brackets + escapes)
        store.add_verdict(row, verdict)
        store.put_status(replace(tree.status, notices=(title,), reason=title, state=SessionState.PAUSED))
        store.add_event("[/", "machine", title)
    async with open_app(folder) as pilot:
        screen = pilot.app.screen
        screen.tree_list.go_to(best.id)
        screen.show_detail()
        await pilot.pause(0.2)
        text = screen_text(pilot)
        for wanted in (f"{best.id} FAIL compile", "[red]softmax[", "Paused: [red] [/] [/red] [b", "· [red] [/] [/red]"):
            assert wanted in text
        shown = screen.detail.text()
        assert "[0] [1/3] [red] [/] [/red] [b + [@click=app.quit]quit[/] [link=file:///etc/passwd]x[/link]" in shown
        assert "half s[128][64 + 8]; a[i][j] += b[i][k] * c[k][j]; x[/*pad*/0]" in shown
        assert not any(ord(c) < 32 and c != "\n" for c in shown)
        for id in ("view.failures", "view.times", "app.help", "view.raw"):
            screen.act(id)
            await pilot.pause(0.1)
            assert not any(ord(c) < 32 and c != "\n" for c in screen_text(pilot))
            if pilot.app.screen is not screen:
                await pilot.press("escape")


async def test_ascii_draws_with_ascii_only(session: Path, open_app: OpenApp) -> None:
    async with open_app(session, ascii_only=True) as pilot:
        text = screen_text(pilot)
        assert {c for c in text if not c.isascii()} <= {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}  # the scrollbar's ends


async def test_a_wide_character_never_breaks_a_column(session: Path, open_app: OpenApp) -> None:
    with Store.open(session, write=True) as store:
        tree = store.read_tree()
        store.put_ideas([replace(idea, title="試し書き" * 20) for idea in tree.ideas.values()])
    async with open_app(session, 100, 30) as pilot:
        widths = {strip.cell_length for strip in pilot.app.screen._compositor.render_strips()}
        assert widths == {100}


async def test_resize_storm(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        for width, height in (
            (300, 80),
            (20, 5),
            (80, 24),
            (1, 1),
            (140, 36),
            (100, 24),
            (60, 16),
            (99, 48),
            (160, 48),
        ):
            await pilot.resize_terminal(width, height)
        await pilot.pause(0.3)
        assert "6 Events" in screen_text(pilot)


async def test_inserts_outside_the_view_do_not_repaint_it(tmp_path: Path, open_app: OpenApp) -> None:
    folder = sessions.large_session(tmp_path / "large", 2000)
    async with open_app(folder) as pilot:
        tree = pilot.app.screen.tree_list
        tree.move_to(0)
        await pilot.pause(0.3)
        drawn: list[int] = []
        original = tree.draw
        tree.draw = lambda row, left, width: (drawn.append(row), original(row, left, width))[1]
        with Store.open(folder, write=True) as store:
            last = next(reversed(store.read_tree().ideas.values()))
            store.put_variants([Variant(id="v99999", idea=last.id, round=last.round)])
        await wait_for(pilot, lambda: "2,001 variants" in screen_text(pilot))
        assert drawn == []


async def test_palette_runs_a_command_with_its_argument(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        screen = pilot.app.screen
        await pilot.press("colon", *"goto", "space", *"v00033", "enter")
        await pilot.pause(0.1)
        assert screen.current.id == "v00033"


async def test_budget_is_read_from_words(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        pilot.app.screen.act("engine.budget", "rounds +2, usd 40, wall 2h30m, tokens off")
        with Store.open(session) as store:
            payload = store.read_decisions()[-1].payload
    assert payload == {"rounds": 8, "usd": 40, "wall_s": 9000, "tokens": None}


async def test_review(tmp_path: Path, open_app: OpenApp) -> None:
    folder = sessions.small_session(tmp_path / "review")
    with Store.open(folder, write=True) as store:
        ideas = list(store.read_tree().ideas.values())[-2:]
        store.put_ideas([replace(idea, status=IdeaStatus.PROPOSED) for idea in ideas])
    async with open_app(folder, 100, 30) as pilot:
        await pilot.press("V", "J", "y", "x", "escape")
    with Store.open(folder) as store:
        found = [(str(d.kind), d.target, d.payload) for d in store.read_decisions()]
    assert [
        ("move", ideas[0].id, {"before": ""}),
        ("approve", ideas[0].id, {}),
        ("reject", ideas[1].id, {}),
    ] == found


async def test_failures_are_grouped_and_open_as_a_filter(session: Path, open_app: OpenApp) -> None:
    async with open_app(session, 100, 30) as pilot:
        await pilot.press("f")
        assert "out: # of # elements wrong, every #nd column" in screen_text(pilot)
        await pilot.press("enter")
        await pilot.pause(0.2)
        assert " 3 match" in screen_text(pilot)


async def test_home_lists_sessions_and_opens_one(session: Path, open_app: OpenApp) -> None:
    async with open_app(None, 100, 30) as pilot:
        await wait_for(pilot, lambda: "RUN" in screen_text(pilot) and "layernorm" in screen_text(pilot))
        await pilot.press("enter")
        await wait_for(pilot, lambda: "1 Tree" in screen_text(pilot))
        await pilot.press("colon", *"home", "enter")
        await wait_for(pilot, lambda: "seen" in screen_text(pilot))
        await pilot.press("q")
        assert pilot.app.return_code == 0


async def test_a_new_session_from_home(tmp_path: Path, open_app: OpenApp) -> None:
    async with open_app(None, 100, 30) as pilot:
        await wait_for(pilot, lambda: "layernorm" in screen_text(pilot))
        await pilot.press("n", *"-mine")
        form = pilot.app.screen
        form.query_one("#input-rounds", Input).value = "many"
        await wait_for(pilot, lambda: "rounds is 'many'; a number is expected." in screen_text(pilot))
        await pilot.press("ctrl+o")
        assert "not made" in screen_text(pilot) and "input-rounds" == form.focused.id
        await pilot.press("escape", "n")
        form = pilot.app.screen
        assert "many" == form.query_one("#input-rounds", Input).value  # the draft
        form.query_one("#input-rounds", Input).value = "7"
        await wait_for(pilot, lambda: "forecast  all 7 rounds" in screen_text(pilot))
        assert "-mine --rounds 7" in screen_text(pilot)
        await pilot.press("ctrl+t")
        await wait_for(pilot, lambda: "All settings of" in screen_text(pilot))
        area = pilot.app.screen.query_one(TextArea)
        area.load_text(area.text.replace("repairs = 1", "repairs = 2"))
        await pilot.press("ctrl+o", "ctrl+o")
        await wait_for(pilot, lambda: "No engine has run here yet" in screen_text(pilot))
        name = f"{pilot.app.screen.model.problem.name}-mine"
    made = list((tmp_path / "sessions").iterdir())
    assert [folder.name for folder in made] == [name]
    with Store.open(made[0]) as store:
        assert (7, 2) == (store.settings().rounds, store.settings().repairs)


async def test_theme_changes_at_once(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        for name in ("kt-light", "kt-ansi", "kt-plain", "kt-contrast"):
            pilot.app.screen.act("view.theme", name)
            await pilot.pause(0.1)
            assert f"theme {name}" in screen_text(pilot)


async def test_events_follow_the_newest_until_the_cursor_is_taken_off(session: Path, open_app: OpenApp) -> None:
    with Store.open(session, write=True) as store:
        for number in range(30):
            store.add_event("engine", "verdict", f"event number {number}")
    async with open_app(session, 100, 30) as pilot:
        log = pilot.app.screen.log_list
        await pilot.press("6")
        await pilot.pause(0.2)
        assert "event number 29" in screen_text(pilot)
        await pilot.press("k")
        with Store.open(session, write=True) as store:
            store.add_event("engine", "verdict", "event number 30")
        await wait_for(pilot, lambda: log.events[-1].text == "event number 30")
        assert ("event number 28", False) == (log.current.text, log.follows)
        await pilot.press("G")
        with Store.open(session, write=True) as store:
            store.add_event("engine", "verdict", "event number 31")
        await wait_for(pilot, lambda: "event number 31" in screen_text(pilot))


async def test_an_error_in_the_log_leads_to_its_line_of_code(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        screen = pilot.app.screen
        failed = next(
            v for v in screen.model.tree.variants.values() if v.outcome is Outcome.COMPILE_ERROR and v.candidate
        )
        screen.tree_list.go_to(failed.id)
        screen.show_detail()
        number = screen.detail.source_line()
        await pilot.press("2", "enter")
        await pilot.pause(0.3)
        assert (number, Tab.CODE) == (screen.detail.marked - screen.detail.numbers_after + 1, screen.detail.tab)


async def test_a_number_after_0_repeats_a_motion(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        tree = pilot.app.screen.tree_list
        await pilot.press("g", "0", "1", "2", "j")
        assert 12 == tree.cursor
        await pilot.press("j", "0", "5", "k", "k")
        assert (7, "tree") == (tree.cursor, str(pilot.app.screen.pane))
        await pilot.press("0", "4", "G")
        assert 3 == tree.cursor


async def test_a_diff_side_by_side_where_there_is_room(session: Path, open_app: OpenApp) -> None:
    async with open_app(session) as pilot:
        detail = pilot.app.screen.detail
        await pilot.press("equals_sign")
        assert "needs 100 columns" in screen_text(pilot)
        await pilot.press("enter")
        await wait_for(pilot, lambda: " | " in detail.text())
        assert all(len(line) <= detail.view.width for line in detail.text().split("\n"))
        await pilot.press("equals_sign")
        await wait_for(pilot, lambda: " | " not in detail.text())


async def test_a_hundred_columns_lose_no_count_and_no_tab(session: Path, open_app: OpenApp) -> None:
    async with open_app(session, 100, 30) as pilot:
        await pilot.press("B")
        await wait_for(pilot, lambda: "[Code]" in screen_text(pilot))
        rounds = [line for line in screen_text(pilot).splitlines() if "round 2 " in line]
        assert any("10 ok 4f" in line for line in rounds), rounds
        screen = pilot.app.screen
        for tab in Tab:  # the chosen one in brackets, whatever else would stand in the line
            screen.show_tab(tab)
            await wait_for(pilot, lambda tab=tab: f"[{tab}]" in screen_text(pilot))
            (tabs,) = [line for line in screen_text(pilot).splitlines() if f"[{tab}]" in line]
            assert all(str(each) in tabs for each in Tab), tabs


async def test_without_a_session_only_keys_that_do_something_are_shown(session: Path, open_app: OpenApp) -> None:
    away = session.with_name("away")
    session.rename(away)
    async with open_app(None, 80, 24) as pilot:
        await pilot.app.push_screen(MainScreen(session))
        await wait_for(pilot, lambda: "no session here" in screen_text(pilot))
        last = screen_text(pilot).rstrip().splitlines()[-1]
        assert "esc back  q quit" in last and "prune" not in last
        assert "reading" not in screen_text(pilot), "it cannot be read"
        await pilot.press("x")
        await wait_for(pilot, lambda: "esc shows all sessions" in screen_text(pilot))
        away.rename(session)
        await wait_for(pilot, lambda: "prune" in screen_text(pilot).rstrip().splitlines()[-1])


@pytest.mark.parametrize("keys", [("escape",), ("colon", *"home", "enter")])
async def test_without_a_session_the_others_can_be_reached(
    tmp_path: Path, open_app: OpenApp, keys: tuple[str, ...]
) -> None:
    async with open_app(None, 80, 24) as pilot:
        await pilot.app.push_screen(MainScreen(tmp_path / "gone"))
        await wait_for(pilot, lambda: "cannot be read" in screen_text(pilot))
        await pilot.press(*keys)
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, HomeScreen))


async def test_a_long_event_says_that_it_goes_on(session: Path, open_app: OpenApp) -> None:
    with Store.open(session, write=True) as store:
        store.add_event("engine", "note", "long " * 40)
    async with open_app(session, 100, 30) as pilot:
        await pilot.press("6")
        await wait_for(pilot, lambda: "long long" in screen_text(pilot))
        (line,) = [line for line in screen_text(pilot).splitlines() if "long long" in line]
        assert line.endswith("…")


async def test_an_empty_session_says_what_will_be_searched(tmp_path: Path, open_app: OpenApp) -> None:
    folder = tmp_path / "sessions" / "empty"
    done = CliRunner().invoke(group, ["new", "softmax", "--name", "empty", "--no-check"])
    assert 0 == done.exit_code, done.output
    async with open_app(folder, 80, 24) as pilot:
        await wait_for(pilot, lambda: "variants an idea" in screen_text(pilot))
        assert "Softmax over wide rows  float32, device auto" in screen_text(pilot)
        last = screen_text(pilot).rstrip().splitlines()[-1]
        assert "S start" in last and "prune" not in last
        assert "S starts the search" in screen_text(pilot)
