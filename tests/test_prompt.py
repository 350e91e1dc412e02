"""Prompts: what they hold, that they are pure, and that no log is too large for them."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest
from author_material import PARENT, REFERENCE, make_ask, make_contract, make_material, make_problem

from kerneltui.authors import Tried
from kerneltui.authors.describing import first_errors, microseconds
from kerneltui.authors.fences import find_blocks
from kerneltui.authors.prompt import FILES, build_prompt, read_template, sections
from kerneltui.contract import words
from kerneltui.errors import SettingsError
from kerneltui.records import (
    Check,
    CheckResult,
    Device,
    ErrorReport,
    Idea,
    KernelResources,
    Language,
    Outcome,
    Policy,
    Speedup,
    Stage,
    Variant,
    Verdict,
)

GPU = Device(
    id="cuda:GPU-1", kind="cuda", name="NVIDIA H200", architecture="sm_90a", cores=132, memory_bytes=141 * 2**30,
    l2_bytes=50 * 2**20, toolkit="nvcc 13.0", facts={"memory bandwidth": "4.1 TB/s measured"},
)  # fmt: skip
GAIN = Speedup(ratio=1.5, low=1.4, high=1.6, tie=False)
FULL = make_material(
    device=GPU,
    language=Language.CUDA,
    round=2,
    parent=Variant(id="v00007", idea="i002", round=1, median_us=20.0, speedup=GAIN),
    parent_source=PARENT,
    parent_verdict=Verdict(
        outcome=Outcome.CORRECT,
        stage=Stage.DONE,
        resources=(KernelResources(name="relu_kernel", registers=40, spill_bytes=16, shared_bytes=2048),),
    ),
    baselines_us={"eager": 30.0, "compile": 25.0},
    floor_us=10.0,
    tried=(
        Tried(
            idea=Idea(id="i001", round=1, title="Use float4", technique="vector loads", expected="1.5x"),
            outcomes={"correct": 2, "compile_error": 1},
            best=GAIN,
            median_us=20.0,
        ),
    ),
    notes=("Keep it readable.",),
    ledger=("vector loads: 3 tried, best 1.50x",),
    profile={"dram throughput": "61 %"},
)


def test_an_idea_prompt_holds_all_that_is_known() -> None:
    prompt = build_prompt(make_ask("ideas", material=FULL, count=4))
    for part in (
        REFERENCE.strip(), words(FULL.contract), "NVIDIA H200 (CUDA GPU, sm_90a)", "132 SMs", "memory: 141 GiB",
        "L2 cache: 50 MiB", "memory bandwidth: 4.1 TB/s measured", "eager: 30 µs", "the parent: 20 µs, 1.50x eager",
        "measured rates): 10 µs; the parent takes 2.0 times that", PARENT.strip(),
        "relu_kernel: 40 registers a thread, 16 bytes spilled, 2,048 bytes of static shared memory",
        "round 1: Use float4 [vector loads]: 2 correct, 1 compile error; best 1.50x eager (20 µs); expected 1.5x",
        "Keep it readable.", "vector loads: 3 tried, best 1.50x", "dram throughput: 61 %", "Propose 4 distinct ideas",
        "one technique", "JSON",
    ):  # fmt: skip
        assert part in prompt


def test_a_write_prompt_asks_for_one_file_with_tunables() -> None:
    prompt = build_prompt(make_ask("write", material=FULL))
    for part in ("**Vectorise**", "Load four at once.", "// tune: BLOCK = 64, 128, 256", "// tune-if:", "#ifndef BLOCK",
                 "one complete source file in one fenced block", words(FULL.contract), "Write CUDA C++."):  # fmt: skip
        assert part in prompt
    assert "attempt" not in prompt
    assert "This is attempt 3 at the idea" in build_prompt(make_ask("write", material=FULL, index=2))


MISMATCH = Verdict(
    outcome=Outcome.MISMATCH,
    stage=Stage.CHECK,
    message="outputs are wrong",
    errors=(
        ErrorReport(
            output="out", wrong=31, total=1024, max_abs=0.5, max_rel=2.0, worst=(3, 33), expected="1.5", found="nan",
            histogram=(("nan", 31),), pattern="every 33rd column", input_set="random 2",
        ),
    ),
    checks=(Check(name="guards intact", result=CheckResult.FAIL, detail="8 bytes after out"),),
)  # fmt: skip


def test_a_repair_prompt_says_how_it_failed() -> None:
    prompt = build_prompt(make_ask("repair", material=FULL, failed_verdict=MISMATCH))
    for part in ("mismatch at the check stage. outputs are wrong", "31 of 1,024 elements of `out` are wrong (random 2 inputs)",
                 "pattern: every 33rd column", "worst at [3, 33]: expected 1.5, found nan", "0.5 absolute, 2 relative",
                 "elements by error: nan: 31", "check failed: guards intact: 8 bytes after out", PARENT.strip()):  # fmt: skip
        assert part in prompt


def test_a_refused_launch_is_told_in_its_own_words() -> None:
    verdict = Verdict(
        outcome=Outcome.LAUNCH_ERROR, stage=Stage.LAUNCH, message="asked for 200 KiB dynamic shared memory"
    )
    prompt = build_prompt(make_ask("repair", failed_verdict=verdict))
    assert "launch error at the launch stage. asked for 200 KiB dynamic shared memory" in prompt
    assert "elements" not in prompt.split("How it failed")[1].split("##")[0]


def test_policy_decides_what_is_said() -> None:
    strict = build_prompt(make_ask("write", of={"policy": Policy(fast_math=False)}))
    loose = build_prompt(
        make_ask("write", of={"policy": Policy(library_calls=True, lower_precision=True), "language": Language.CUDA})
    )
    assert ("Call no vendor library" in strict, "Call no vendor library" in loose) == (True, False)
    assert ("Rely on no fast-math" in strict, "Lower precision inside is allowed" in loose) == (True, True)
    assert ("what you include is linked" in strict, "what you include is linked" in loose) == (False, True)


def test_modules_are_asked_for_in_python() -> None:
    prompt = build_prompt(make_ask("write", of={"language": Language.PYTHON}))
    assert "class ModelNew(torch.nn.Module)" in prompt
    assert "// tune:" not in prompt


@pytest.mark.parametrize("purpose", FILES)
def test_prompts_are_pure_and_have_no_empty_section(purpose: str) -> None:
    for material in (make_material(), FULL):
        ask = make_ask(purpose, material=material, failed_verdict=MISMATCH)
        prompt = build_prompt(ask)
        assert prompt == build_prompt(ask)
        assert re.findall(r"^## .*\n\s*(?:^##|\Z)", prompt, re.MULTILINE) == []
        assert "${" not in prompt.replace("${name}", "")


@pytest.mark.parametrize("purpose", FILES)
def test_every_placeholder_of_the_shipped_templates_is_known(purpose: str) -> None:
    used = set(re.findall(r"\$\{(\w+)\}", read_template(FILES[purpose])))
    assert used - set(sections(make_ask(purpose))) == set()


def test_a_template_of_the_session_is_used_instead() -> None:
    ask = make_ask("write", of={"templates": {"write.md": "Only this: ${idea} for $$5"}})
    assert build_prompt(ask).startswith("Only this: ## The idea")
    assert build_prompt(ask).endswith("for $5\n")


@pytest.mark.parametrize("template", ["${ideaa}", "costs $5", "${"])
def test_a_wrong_placeholder_is_named(template: str) -> None:
    with pytest.raises(SettingsError, match=r"template write\.md: cannot follow the placeholder"):
        build_prompt(make_ask("write", of={"templates": {"write.md": template}}))


def test_fences_in_a_source_end_nothing() -> None:
    source = PARENT.replace("return 0;", "/*\n```\n````\n*/ return 0;")
    prompt = build_prompt(make_ask("ideas", of={"parent_source": source}))
    assert source.strip() in [block.text.strip() for block in find_blocks(prompt)]


def test_dollars_and_surrogates_in_what_is_shown() -> None:
    problem = make_problem(source=REFERENCE + "# ${x} $5 \ud83d\n")
    prompt = build_prompt(make_ask("write", of={"problem": problem, "contract": make_contract()}))
    assert "# ${x} $5 ?" in prompt
    prompt.encode()


def test_a_long_history_is_cut_and_says_so() -> None:
    tried = tuple(
        Tried(
            idea=Idea(id=f"i{n}", round=1, title=f"idea {n}"), outcomes={"correct": 1}, best=replace(GAIN, ratio=n / 10)
        )
        for n in range(100)
    )
    prompt = build_prompt(make_ask("ideas", of={"tried": tuple(reversed(tried))}))
    assert "more, neither among the best nor recent, are left out.)" in prompt
    assert ("idea 99:" in prompt, "idea 0:" in prompt, "idea 50:" in prompt) == (True, True, False)


# --------------------------------------------------------------------------- logs


def test_a_short_log_is_given_whole() -> None:
    assert first_errors("a.cu(3): error: x\nnote\n") == "a.cu(3): error: x\nnote"


def test_a_long_log_gives_its_first_errors_and_says_what_was_cut() -> None:
    noise = [f"note {n}: instantiated from here" for n in range(2000)]
    log = "\n".join([*noise, "k.cu(7): error: `y` is undefined", "  out[i] = y;", "           ^", *noise])
    cut = first_errors(log)
    assert cut.startswith("k.cu(7): error: `y` is undefined\n  out[i] = y;\n")
    assert cut.endswith(f"[cut: 4 of 4,003 lines and 91 of {len(log):,} characters shown]")


def test_a_log_without_errors_gives_its_beginning() -> None:
    cut = first_errors("\n".join(f"line {n}" for n in range(5000)))
    assert cut.startswith("line 0\nline 1\n")
    assert "[cut: 400 of 5,000 lines" in cut


def test_an_enormous_log_is_no_trouble() -> None:
    log = "error: " + "x" * 10_000_000 + "\n" + "warning: y\n" * 200_000
    started = time.monotonic()
    cut = first_errors(log)
    assert time.monotonic() - started < 5
    assert "… (10,000,007 characters)" in cut
    assert len(cut) < 8_000
    prompt = build_prompt(make_ask("repair", failed_verdict=replace(MISMATCH, outcome=Outcome.COMPILE_ERROR, log=log)))
    assert len(prompt) < 20_000


def test_times() -> None:
    assert [microseconds(value) for value in (0.1234, 20.0, 123.4, 12345.6)] == [
        "0.123 µs",
        "20 µs",
        "123 µs",
        "12,346 µs",
    ]
