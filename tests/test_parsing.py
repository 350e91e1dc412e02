"""Every shape of answer, with what must come out of it: the right text, or the right words."""

from __future__ import annotations

import json

import pytest
from author_material import PARENT, make_ask, make_material
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltui.authors import Answer, Ask, Reply
from kerneltui.authors.parsing import read_answer
from kerneltui.records import Language

BODY = """#include "contract.h"
extern "C" int relu(const float* x, float* out, void* workspace) {
    for (long i = 0; i < N; ++i) out[i] = x[i] > 0 ? x[i] : 0;
    return 0;
}
"""
SKETCH = 'extern "C" int relu(const float* x, float* out, void* workspace) { return 7; }\n'
MODULE = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.relu()\n"


def fenced(code: str, info: str = "cpp", marks: str = "```") -> str:
    return f"{marks}{info}\n{code}{marks}\n"


def read(text: str, finish: str = "stop", ask: Ask | None = None, **reply: object) -> Answer:
    return read_answer(ask or make_ask(), Reply(text=text, finish_reason=finish, **reply))  # type: ignore[arg-type]


SOURCES: dict[str, tuple[str, str]] = {
    "one fence": (fenced(BODY), BODY),
    "prose around": (f"Here it is.\n\n{fenced(BODY)}\nIt is fast.", BODY),
    "no language": (fenced(BODY, ""), BODY),
    "wrong language tag": (fenced(BODY, "python"), BODY),
    "tag in capitals with attributes": (fenced(BODY, 'C++ title="relu.cpp" {.numberLines}'), BODY),
    "sketch, then the final one": (f"{fenced(SKETCH)}\nBetter:\n{fenced(BODY)}", BODY),
    "final, then a usage example": (f"{fenced(BODY)}\nCall it:\n{fenced('int main() { relu(x, out, 0); }' + chr(10))}", BODY),
    "final, then shell commands": (f"{fenced(BODY)}\n{fenced('g++ -O3 relu.cpp' + chr(10), 'bash')}", BODY),
    "tildes": (fenced(BODY, "cpp", "~~~"), BODY),
    "tildes holding backticks": (fenced(BODY.replace("return 0;", "/*\n```\n*/ return 0;"), "cpp", "~~~"),
                                 BODY.replace("return 0;", "/*\n```\n*/ return 0;")),
    "four backticks holding three": (fenced(BODY.replace("return 0;", "/*\n```\n*/ return 0;"), "cpp", "````"),
                                     BODY.replace("return 0;", "/*\n```\n*/ return 0;")),
    "three backticks holding three": (fenced(BODY.replace("return 0;", "/* usage:\n```\nrelu()\n```\n*/ return 0;")),
                                      BODY.replace("return 0;", "/* usage:\n```\nrelu()\n```\n*/ return 0;")),
    "closing fence is longer": (f"```cpp\n{BODY}``````\n", BODY),
    "indented in a list": ("1. The kernel:\n\n" + "".join(f"   {line}\n" for line in fenced(BODY).splitlines()), BODY),
    "indented by six": ("- a\n  - b\n\n" + "".join(f"      {line}\n" for line in fenced(BODY).splitlines()), BODY),
    "quoted": ("".join(f"> {line}\n" for line in fenced(BODY).splitlines()), BODY),
    "inside a markdown block": (f"````markdown\n# Answer\n{fenced(BODY)}````\n", BODY),
    "inside an unmarked markdown block": (f"```markdown\n# Answer\n```cpp\n{BODY}```\n```\n", BODY),
    "no fence at all": (BODY, BODY),
    "no fence, prose at both ends": (f"The kernel is this.\n\n{BODY}\nIt uses one loop.", BODY),
    "never closed, said to be finished": (f"```cpp\n{BODY}", BODY),
    "closed thinking": (f"<think>\n{fenced(SKETCH)}\nno, better\n</think>\n\n{fenced(BODY)}", BODY),
    "closed thinking, other word": (f"<Thinking>maybe\n{fenced(SKETCH)}</Thinking>{fenced(BODY)}", BODY),
    "thinking whose start is missing": (f"I try\n```cpp\n{SKETCH}\n</think>\n\n{fenced(BODY)}", BODY),
    "thinking spoken of": (f"I used no `<think>` block.\n\n{fenced(BODY)}", BODY),
    "a tag inside the code": (fenced(BODY.replace("return 0;", 'puts("<think>"); return 0;')),
                              BODY.replace("return 0;", 'puts("<think>"); return 0;')),
    "CRLF": (fenced(BODY).replace("\n", "\r\n"), BODY),
    "old Mac line ends": (fenced(BODY).replace("\n", "\r"), BODY),
    "byte-order mark": ("\ufeff" + BODY, BODY),
    "byte-order mark before the fence": ("\ufeff" + fenced(BODY), BODY),
    "smart quotes outside strings": (fenced(BODY.replace('"contract.h"', "“contract.h”").replace('"C"', "“C”")), BODY),
    "smart quotes inside a string": (fenced(BODY.replace("return 0;", 'puts("“so”"); return 0;')),
                                     BODY.replace("return 0;", 'puts("“so”"); return 0;')),
    "no-break spaces": (fenced(BODY.replace("    for (long", "\u00a0\u00a0\u00a0\u00a0for\u00a0(long")), BODY),
    "zero-width spaces": (fenced(BODY.replace("return 0", "return\u200b 0")), BODY),
    "minus sign": (fenced(BODY.replace("return 0", "return \u22121")), BODY.replace("return 0", "return -1")),
    "lone surrogate in the prose": (f"fast \ud83d\n{fenced(BODY)}", BODY),
    "terminal escapes": (f"\x1b[1mDone\x1b[0m\n{fenced(BODY)}", BODY),
    "NUL": (fenced(BODY.replace("return 0;", "return\x00 0;")), BODY),
    "two files, header inlined": (
        fenced("#pragma once\nstatic float f(float v) { return v > 0 ? v : 0; }\n", "cpp f.h")
        + fenced('#include "contract.h"\n#include "f.h"\nextern "C" int relu(const float* x, float* out, void* w) '
                 "{ for (long i = 0; i < N; ++i) out[i] = f(x[i]); return 0; }\n", "cpp relu.cpp"),
        '#include "contract.h"\n\nstatic float f(float v) { return v > 0 ? v : 0; }\n\nextern "C" int '
        "relu(const float* x, float* out, void* w) { for (long i = 0; i < N; ++i) out[i] = f(x[i]); return 0; }\n",
    ),
    "declared first, defined after": (fenced('extern "C" int relu(const float*, float*, void*);\n') + fenced(BODY), BODY),
    "called in a comment of another block": (fenced(BODY) + fenced("// relu(x) { }\nint helper(int v) { return v; }\n"), BODY),
    "an end marker of its own": (fenced(BODY.replace('extern', '// END KERNEL\nextern')), BODY.replace('extern', '// END KERNEL\nextern')),
    "cut off after the code": (f"{fenced(BODY)}\nThe next thing one could", BODY),
}  # fmt: skip


@pytest.mark.parametrize("shape", SOURCES)
def test_takes_the_source(shape: str) -> None:
    text, expected = SOURCES[shape]
    answer = read(text, "length" if shape == "cut off after the code" else "stop")
    assert ("", expected) == (answer.problem, answer.source)
    assert answer.language is Language.CPP


PROBLEMS: dict[str, tuple[str, str, str]] = {
    "empty": ("", "stop", "the answer is empty"),
    "white space only": (" \n\t\n", "stop", "the answer is empty"),
    "thinking only": ("<think>hm</think>\n", "stop", "the answer holds thinking and nothing else"),
    "prose only": ("I cannot improve on this.", "stop", "no code in the answer: nothing in it defines `relu`"),
    "another function": (fenced('extern "C" int softmax(float* x) { return 0; }\n'), "stop",
                         "no block defines `relu`; the answer defines `softmax`"),
    "prototype only": (fenced('extern "C" int relu(const float*, float*, void*);\n'), "stop",
                       "no block defines `relu`; 1 seen: cpp, 1 lines"),
    "a module instead": (fenced(MODULE, "python"), "stop",
                         "the answer is a Python module (ModelNew) where a C++ file that defines `relu` was asked for"),
    "cut in the middle": (f"```cpp\n{BODY[:120]}", "length", "answer cut off at 77 tokens: raise the cap (max_tokens)"),
    "cut in the middle, Gemini's word": (f"```cpp\n{BODY[:120]}", "MAX_TOKENS",
                                         "answer cut off at 77 tokens: raise the cap (max_tokens)"),
    "sketch whole, final cut": (fenced(SKETCH) + f"```cpp\n{BODY[:120]}", "length",
                                "answer cut off at 77 tokens: raise the cap (max_tokens)"),
    "cut before any code": ("First I would", "length", "answer cut off at 77 tokens: raise the cap (max_tokens)"),
    "open thinking, cut": ("<think>\n" + fenced(SKETCH), "length", "answer cut off at 77 tokens: raise the cap (max_tokens)"),
    "open thinking, finished": ("<think>\n" + fenced(SKETCH), "stop", "the answer never left its thinking: it was not finished"),
    "unclosed and half, said to be finished": (f"```cpp\n{BODY[:120]}", "stop",
                                               "the code ends in the middle: 1 brace left open at its end"),
    "bare and half": (BODY[:140], "", "the code ends in the middle: 1 brace left open at its end"),
}  # fmt: skip


@pytest.mark.parametrize("shape", PROBLEMS)
def test_says_what_is_wrong(shape: str) -> None:
    text, finish, expected = PROBLEMS[shape]
    answer = read(text, finish, tokens_out=77)
    assert ("", expected) == (answer.source, answer.problem)


def edit(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


LOOP = "    for (long i = 0; i < N; ++i) out[i] = x[i] > 0 ? x[i] : 0;"
FASTER = "    #pragma omp simd\n" + LOOP
EDITED = BODY.replace(LOOP, FASTER)
UNIFIED = f"""--- a/relu.cpp
+++ b/relu.cpp
@@ -2,3 +2,4 @@
 extern "C" int relu(const float* x, float* out, void* workspace) {{
+    #pragma omp simd
 {LOOP}
     return 0;
"""
EDITS: dict[str, tuple[str, str, str]] = {
    "search and replace": (edit(LOOP, FASTER), EDITED, ""),
    "in a fence": (fenced(edit(LOOP, FASTER), "diff"), EDITED, ""),
    "in a fence called cpp": (fenced(edit(LOOP, FASTER)), EDITED, ""),
    "two edits": (edit(LOOP, FASTER) + edit("    return 0;", "    return 0;  // done"),
                  EDITED.replace("return 0;", "return 0;  // done"), ""),
    "trailing spaces": (edit(LOOP + "  ", FASTER), EDITED, ""),
    "other indentation": (edit(LOOP.strip(), FASTER.replace("    ", "")), EDITED, ""),
    "unified diff": (fenced(UNIFIED, "diff"), EDITED, ""),
    "unified diff, bare": (UNIFIED, EDITED, ""),
    "unified diff, wrong line numbers": (UNIFIED.replace("-2,3 +2,4", "-90,3 +90,4"), EDITED, ""),
    "a space differs": (edit(LOOP.replace("i < N", "i<N"), FASTER), "",
                        "edit 1 of 1 does not apply: `for (long i = 0; i<N; ++i) out[i] = x[i] > 0 ? x[i] : 0;` differs "
                        "from line 3 of the parent in white space only: `for (long i = 0; i < N; ++i) out[i] = x[i] > 0 ? x[i] : 0;`"),
    "unknown line": (edit("    int y;", "    int z;"), "", "edit 1 of 1 does not apply: the parent has no line `int y;`"),
    "no end marker": ("<<<<<<< SEARCH\n" + LOOP + "\n=======\n" + FASTER + "\n", "",
                      "the edit at line 1 of the answer has no end marker (>>>>>>> REPLACE)"),
    "no divider": ("<<<<<<< SEARCH\n" + LOOP + "\n>>>>>>> REPLACE\n", "",
                   "the edit at line 1 of the answer has no ======= between its two halves"),
    "same halves": (edit(LOOP, LOOP), "", "edit 1 of 1 changes nothing: both of its halves are the same"),
    "nothing searched": (edit("", FASTER), "", "edit 1 of 1 does not apply: it says nothing to search for"),
    "there and back": (edit(LOOP, FASTER) + edit(FASTER, LOOP), "",
                       "the edit changes nothing: the source is the parent's again"),
    "function removed": (edit(BODY.split("\n")[1], "int other() {"), "", "after the edits nothing defines `relu`"),
}  # fmt: skip


@pytest.mark.parametrize("shape", EDITS)
def test_applies_edits_to_the_parent(shape: str) -> None:
    text, source, problem = EDITS[shape]
    answer = read(text, ask=make_ask(of={"parent_source": PARENT}))
    assert (source, problem) == (answer.source, answer.problem)


def test_an_edit_needs_a_parent_and_one_place() -> None:
    assert "there is none to edit" in read(edit(LOOP, FASTER)).problem
    twice = PARENT.replace(LOOP, LOOP + "\n" + LOOP)
    answer = read(edit(LOOP, FASTER), ask=make_ask(of={"parent_source": twice}))
    assert answer.problem == "edit 1 of 1 does not apply: its search text is found in 2 places (lines 3, 4)"


def test_a_repair_is_an_edit_of_the_failed_source() -> None:
    answer = read(edit("    return 0;", "    return (0);"), ask=make_ask("repair"))
    assert answer.source == PARENT.replace("return 0;", "return (0);")


def test_notes_say_what_was_done() -> None:
    notes = read(SOURCES["sketch, then the final one"][0]).notes
    assert notes == ("block 2 of 2 was taken (lines 6–12 of the answer)",)
    assert read(SOURCES["CRLF"][0]).notes == ("line ends were CRLF",)
    assert read(SOURCES["no-break spaces"][0]).notes == (
        "typographic quotes, dashes or spaces in the code were made plain",
    )
    assert (
        read(SOURCES["two files, header inlined"][0]).notes[-1]
        == "f.h from the answer was put in place of its #include"
    )
    assert read(SOURCES["no fence, prose at both ends"][0]).notes == (
        "no fence in the answer: lines 3–7 were taken as code",
    )


def test_another_block_can_be_chosen() -> None:
    ask, reply = make_ask(), Reply(text=SOURCES["sketch, then the final one"][0], finish_reason="stop")
    answer = read_answer(ask, reply, block=0)
    assert (answer.source, answer.problem) == (SKETCH, "")
    assert read_answer(ask, reply, block=9).problem == "there is no block 10 in the answer; it has 2"


def test_modules() -> None:
    ask = make_ask(material=make_material(language=Language.PYTHON))
    answer = read(f"{fenced('print(1)' + chr(10), 'python')}\n{fenced(MODULE, 'python')}", ask=ask)
    assert (answer.source, answer.language, answer.problem) == (MODULE, Language.PYTHON, "")
    assert read(fenced("print(1)\n", "python"), ask=ask).problem == (
        "no block defines class ModelNew; 1 seen: python, 1 lines"
    )


def test_a_monstrous_answer_is_not_read() -> None:
    problem = read("x" * 1_000_001).problem
    assert problem == "the answer is 1,000,001 characters long; more than 1,000,000 are not read"


def test_thinking_that_ate_the_budget() -> None:
    answer = read("", "length", tokens_out=4096, tokens_reasoning=4000)
    assert answer.problem == "4,000 of 4,096 tokens went into thinking: raise the cap (max_tokens)"


# --------------------------------------------------------------------------- ideas


ONE = {
    "title": "Vector loads",
    "text": "Read float4.",
    "bottleneck": "memory",
    "technique": "vectorisation",
    "expected": "1.3x",
    "risk": "tails",
}
TWO = {**ONE, "title": "Grid stride", "text": "Fewer blocks."}
BOTH = json.dumps({"ideas": [ONE, TWO]}, indent=1)
TITLES = ("Vector loads", "Grid stride")
IDEAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "by schema": (BOTH, TITLES),
    "on one line": (json.dumps({"ideas": [ONE, TWO]}), TITLES),
    "a bare array": (json.dumps([ONE, TWO]), TITLES),
    "one object": (json.dumps(ONE), TITLES[:1]),
    "in a fence": (f"Sure:\n```json\n{BOTH}\n```\nGood luck!", TITLES),
    "prose around, no fence": (f"Here are {{two}} ideas: {BOTH} as asked.", TITLES),
    "comments": (BOTH.replace('"risk"', '// the danger\n /* really */ "risk"'), TITLES),
    "trailing commas": (BOTH.replace('"tails"', '"tails",').replace("}\n ]", "},\n ]"), TITLES),
    "single quotes and Python words": (str({"ideas": [ONE, {**TWO, "risk": None}]}), TITLES),
    "smart quotes": (BOTH.replace('"title": "', '“title”: "'), TITLES),
    "keys without quotes": ('{ideas: [{title: "Vector loads", text: "a"}, {title: "Grid stride", text: "b"}]}', TITLES),
    "raw line breaks in strings": (BOTH.replace("Read float4.", "Read\nfloat4."), TITLES),
    "unescaped quotes in strings": (BOTH.replace("Read float4.", 'Read "float4" at once.'), TITLES),
    "other names": (json.dumps({"optimizations": [{"name": n, "description": "d e f g"} for n in TITLES]}), TITLES),
    "one object each": (json.dumps(ONE) + "\n" + json.dumps(TWO), TITLES[1:]),
    "after thinking": (f"<think>{json.dumps([{'title': 'draft', 'text': 'x'}])}</think>{BOTH}", TITLES),
    "draft, then final": (
        f"```json\n{json.dumps([{'title': 'draft', 'text': 'x'}])}\n```\nFinal:\n```json\n{BOTH}\n```",
        TITLES,
    ),
    "a numbered list": (
        "1. **Vector loads**: read float4.\n   - Risk: tails\n2. **Grid stride** – fewer blocks.\n",
        TITLES,
    ),
    "a plain numbered list": ("Ideas:\n1) Vector loads: read float4\n2) Grid stride: fewer blocks\n", TITLES),
    "headings": ("### Idea 1: Vector loads\nRead float4.\n\n### Idea 2: Grid stride\nFewer blocks.\n", TITLES),
    "headings without numbers": ("## Vector loads\nRead float4.\n\n## Grid stride\nFewer blocks.\n", TITLES),
    "bold bullets": ("- **Vector loads**: read float4\n- **Grid stride**: fewer blocks\n", TITLES),
    "CRLF": (BOTH.replace("\n", "\r\n"), TITLES),
    "byte-order mark": ("\ufeff" + BOTH, TITLES),
    "half a surrogate pair": (BOTH.replace("Read float4.", "fast \\ud83d"), TITLES),
}


@pytest.mark.parametrize("shape", IDEAS)
def test_reads_ideas(shape: str) -> None:
    text, titles = IDEAS[shape]
    if shape == "one object each":
        titles = TITLES
    answer = read(text, ask=make_ask("ideas", count=4))
    assert (titles, "") == (tuple(idea.title for idea in answer.ideas), answer.problem)


def test_an_idea_has_all_its_fields() -> None:
    idea = read(BOTH, ask=make_ask("ideas", count=4)).ideas[0]
    assert {name: getattr(idea, name) for name in ONE} == ONE
    listed = read(IDEAS["a numbered list"][0], ask=make_ask("ideas", count=4)).ideas[0]
    assert (listed.text, listed.risk) == ("read float4.", "tails")


def test_whole_ideas_of_a_cut_answer_are_kept() -> None:
    cut = BOTH[: BOTH.index("Fewer")]
    answer = read(cut, "length", ask=make_ask("ideas", count=4))
    assert (TITLES[:1], "") == (tuple(idea.title for idea in answer.ideas), answer.problem)
    assert "cut off after 1 whole idea: kept" in answer.notes


def test_too_many_ideas_are_named() -> None:
    answer = read(BOTH, ask=make_ask("ideas", count=1))
    assert answer.notes == ("2 ideas came where 1 were asked for; left out: Grid stride",)


IDEA_PROBLEMS = {
    "empty": ("", "stop", "the answer is empty"),
    "cut at once": (
        BOTH[:40],
        "length",
        "answer cut off at 9 tokens: raise the cap (max_tokens); no idea in it was whole",
    ),
    "broken off though finished": (BOTH[:40], "stop", "the JSON of the answer breaks off before the first whole idea"),
    "no ideas": ('{"ideas": []}', "stop", "no ideas in the answer: neither JSON nor a list"),
    "prose": ("I would rather not.", "stop", "no ideas in the answer: neither JSON nor a list"),
}


@pytest.mark.parametrize("shape", IDEA_PROBLEMS)
def test_says_why_there_are_no_ideas(shape: str) -> None:
    text, finish, expected = IDEA_PROBLEMS[shape]
    answer = read(text, finish, ask=make_ask("ideas", count=4), tokens_out=9)
    assert ((), expected) == (answer.ideas, answer.problem)


# --------------------------------------------------------------------------- anything at all


PIECES = st.sampled_from(
    ("```", "```cpp\n", "~~~", "````\n", "\n", "> ", "    ", "<think>", "</think>", "<<<<<<< SEARCH\n", "=======\n",
     ">>>>>>> REPLACE\n", "@@ -1,2 +1,2 @@\n", "+a\n", "-b\n", '{"ideas": [', '{"title": "', '"}', "]", "}", "{", "\\",
     "\\u", "/*", "*/", '"', "'", 'R"x(', "1. **a**: b\n", "## c\n", BODY, SKETCH, MODULE, BOTH, "\r\n", "\ufeff", "\ud800")
)  # fmt: skip
TEXTS = st.one_of(
    st.text(st.characters(codec=None)), st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=14).map("".join)
)


@given(
    text=TEXTS,
    finish=st.sampled_from(["", "stop", "length", "other"]),
    purpose=st.sampled_from(["ideas", "write", "repair"]),
)
@settings(max_examples=400, deadline=None)
def test_never_raises_and_never_loses(text: str, finish: str, purpose: str) -> None:
    for language in (Language.CPP, Language.PYTHON):
        ask = make_ask(purpose, of={"language": language, "parent_source": PARENT}, count=3)
        answer = read_answer(ask, Reply(text=text, finish_reason=finish))
        usable = bool(answer.ideas) if purpose == "ideas" else bool(answer.source.strip())
        assert usable != bool(answer.problem)
        json.dumps([answer.source, answer.problem, answer.notes], ensure_ascii=False).encode()
