"""The filter language."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kerneltui.records import Call, Idea, Language, Outcome, Speedup, Stage, Variant, VariantState
from kerneltui.tui.filters import FilterProblem, parse_filter

IDEA = Idea(id="i003", round=8, author="openai", title="Swizzle shared memory")
GOOD = Variant(id="v00001", idea="i003", round=8, language=Language.CUDA, state=VariantState.DONE, outcome=Outcome.CORRECT,
               stage=Stage.DONE, median_us=59.5, speedup=Speedup(ratio=1.4, low=1.39, high=1.41, tie=False), registers=168,
               pinned=True, name="BLOCK=128", finished=1000.0)  # fmt: skip
BAD = replace(GOOD, id="v00002", outcome=Outcome.COMPILE_ERROR, stage=Stage.COMPILE, median_us=None, speedup=None, pinned=False,
              message="ptxas: smem 0x1c000 > 0x18c00", finished=10.0)  # fmt: skip
BUSY = replace(
    GOOD, id="v00003", state=VariantState.RUNNING, outcome=None, stage=None, median_us=None, speedup=None, pinned=False
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("state:ok", "1"), ("state:fail", "2"), ("state:run", "3"), ("!state:ok", "23"), ("stage:compile", "2"),
        ("speed>1.2", "1"), ("speed<1.2", ""), ("us<60", "1"), ("regs<=168", "123"), ("round:8..12", "123"), ("round:9..12", ""),
        ("idea:i003", "123"), ("idea:i004", ""), ("by:openai", "123"), ("is:pinned", "1"), ("lang:cuda", "123"),
        ("swizzle", "123"), ("Swizzle", "123"), ("sWizzle", ""), ("~swzl", "123"), ("/smem.*>/", "2"), ('"smem 0x1c000 >"', "2"),
        ("state:ok | state:run", "13"), ("state:fail smem", "2"), ('sig:"smem"', "2"), ("since:10m", "13"), ("v00002", "2"),
        ("cost>0.05", "1"), ("cost<=0.05", ""), ("!cost>0.05", "23"), ("code:/cp.async/", "1"), ("code:nothing", ""),
    ],
)  # fmt: skip
def test_terms(text: str, found: str) -> None:
    parsed = parse_filter(
        text, now=1100.0, calls={7: Call(id=7, purpose="write", node="i003", author="a", cost_usd=0.06)}
    )
    assert parsed is not None
    for term in parsed.codes:
        term.found = {"good"} if term.pattern.search("  cp.async.cg.shared.global") else set()
    good = replace(GOOD, call=7, candidate="good")
    assert "".join(v.id[-1] for v in (good, BAD, BUSY) if parsed.test(v, IDEA)) == found


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("stat:ok", "no filter called stat:; did you mean state?", 0),
        ("ab state:okay", "state: is one of ok, fail, run, wait; did you mean ok?", 3),
        ("us<fast", "us wants a number, not 'fast'", 0),
        ("state>ok", "state is no number; write state:ok", 0),
        ("spee>1.5", "no filter called spee:; did you mean speed?", 0),
        ("/(/", "the expression cannot be read: missing ), unterminated subpattern at position 0", 0),
        ("since:soon", "since: wants 30s, 10m, 2h or 1d", 0),
        ("ab code:", "code: needs a text or a /regex/", 3),
        ("code>3", "code: needs a text or a /regex/", 0),
        ("cost>much", "cost wants a number, not 'much'", 0),
        ("a | ", "something is missing beside |", 2),
    ],
)
def test_what_is_wrong_is_said_with_its_column(text: str, message: str, column: int) -> None:
    with pytest.raises(FilterProblem) as caught:
        parse_filter(text)
    assert (str(caught.value), caught.value.column) == (message, column)


def test_no_text_is_no_filter() -> None:
    assert parse_filter("  ") is None


def test_ideas_match_by_their_words_only_where_no_variant_is_asked_for() -> None:
    words, states = parse_filter("swizzle"), parse_filter("swizzle state:ok")
    assert words is not None and words.title is not None and words.title("i003 Swizzle shared memory")
    assert states is not None and states.title is None
