"""nvcc's two halves at the same time: the same library, the same words, and plain nvcc where its plan is not known."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from building import CUDA_CONTRACT, HAS_NVCC

from kerneltui.evaluator import compiler_log, nvcc_plan
from kerneltui.evaluator.compile import Build, build
from kerneltui.evaluator.devices import offline_cuda_device
from kerneltui.evaluator.recipes import recipe_for
from kerneltui.records import Candidate, Device, Language, Policy, Verdict

needs_nvcc = pytest.mark.skipif(not HAS_NVCC, reason="no nvcc here")

# Names that are private to the file come in every form that nvcc renames.
SOURCE = """#include "contract.h"
namespace {
__device__ float table[4];
__constant__ float scale[FACTOR];
template <int STEP> __global__ void positive(const float* x, float* out, long n) {
    const long i = blockIdx.x * 256L + threadIdx.x;
    if (i < n) out[i] = fmaxf(x[i] * scale[0], table[STEP]);
}
}
static __global__ void nothing(float* out) { int unused; }
extern "C" int relu(const float* x, float* out, void*, cudaStream_t stream) {
    positive<1><<<(N + 255) / 256, 256, 0, stream>>>(x, out, N);
    nothing<<<1, 1, 0, stream>>>(out);
    return cudaGetLastError();
}
"""


def candidate(source: str = SOURCE, **more: Any) -> Candidate:
    return Candidate(source=source, language=Language.CUDA, **({"defines": (("FACTOR", "3"),)} | more))


@pytest.fixture
def device() -> Device:
    return offline_cuda_device("sm_90a")


def run_both(folder: Path, one: Candidate, device: Device) -> list[tuple[str, bytes]]:
    """What plain nvcc and the script say and make, in folders whose names have the same length."""
    recipe = recipe_for(one, CUDA_CONTRACT, device)
    (step,) = recipe.steps
    assert step.script
    results = []
    for name, argv in (("plain", step.argv), ("split", ("/bin/sh", "-c", step.script))):
        here = folder / name
        here.mkdir()
        recipe.write(here)
        said = subprocess.run(argv, cwd=here, capture_output=True, text=True)
        ptx = here / "kernel.ptx"
        results.append((said.stdout + said.stderr, ptx.read_bytes() if ptx.exists() else b""))
    return results


@needs_nvcc
def test_the_same_code_and_the_same_words(tmp_path: Path, device: Device) -> None:
    (plain, plain_ptx), (split, split_ptx) = run_both(tmp_path, candidate(), device)
    unnamed = [re.sub(rb"_[0-9a-f]{8}_9_kernel_cu_relu|/plain/|/split/", b"", code) for code in (plain_ptx, split_ptx)]
    assert unnamed[0] == unnamed[1] and b"positive" in unnamed[0]
    assert plain.count('variable "unused" was declared') == split.count('variable "unused" was declared') > 0
    figures = [compiler_log.kernel_resources(said) for said in (plain, split)]
    assert [len(found) for found in figures] == [2, 2]
    assert [one.registers for one in figures[0]] == [one.registers for one in figures[1]]


@needs_nvcc
@pytest.mark.parametrize(
    "source",
    [
        SOURCE.replace("return cudaGetLastError();", "return nowhere;"),
        SOURCE.replace("table[STEP]);", "table[STEP] + missing);"),
        SOURCE.replace("float table[4]", "float table[4] float"),
        SOURCE.replace("int unused;", "__shared__ float much[100000]; out[0] = much[threadIdx.x];"),
        SOURCE + "int other() { return static_cast<no_such_type>(1); }\n",
        SOURCE.replace("nothing<<<", "elsewhere(); nothing<<<").replace(
            "namespace {", "void elsewhere();\nnamespace {", 1
        ),
    ],
    ids=["host", "device", "syntax", "ptxas", "type", "link"],
)
def test_errors_are_the_same_and_said_once(source: str, tmp_path: Path, device: Device) -> None:
    (plain, _), (split, _) = run_both(tmp_path, candidate(source), device)
    errors = [compiler_log.first_error(said) for said in (plain, split)]
    assert errors[0] == errors[1] != ""
    assert plain.count("error") == split.count("error")


@needs_nvcc
async def test_defines_and_flags_reach_both_halves(tmp_path: Path, device: Device) -> None:
    source = SOURCE.replace("int unused;", "").replace("return cudaGetLastError();", "return FACTOR;")
    for factor in ("3", "0x10"):
        one = candidate(source, defines=(("FACTOR", factor), ("OTHER", "")), flags=("--maxrregcount=24", "-O3"))
        found = await build(one, CUDA_CONTRACT, device, policy=Policy(), cache=tmp_path)
        assert isinstance(found, Build), found
        assert f"-DFACTOR={factor} -DOTHER=" in found.log and "--maxrregcount=24" in found.log
        assert f"float scale[{factor}]" not in found.log
        constants = subprocess.run(["nm", "-S", found.library], capture_output=True, text=True).stdout
        size = re.search(r"^\w+ (\w+) . \w*scale\w*$", constants, re.M)
        assert size is not None and int(size[1], 16) == 4 * int(factor, 0)


@needs_nvcc
async def test_a_script_that_cannot_run_leaves_the_word_to_nvcc(
    tmp_path: Path, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvcc_plan, "script", lambda compiler, words: "echo cicc: cannot open a file >&2; exit 1")
    found = await build(candidate(), CUDA_CONTRACT, device, policy=Policy(), cache=tmp_path)
    assert isinstance(found, Build) and "cannot open" not in found.log
    wrong = candidate(SOURCE.replace("table[STEP]);", "missing);"))
    verdict = await build(wrong, CUDA_CONTRACT, device, policy=Policy(), cache=tmp_path)
    assert isinstance(verdict, Verdict) and verdict.message == 'line 7: identifier "missing" is undefined'


@needs_nvcc
async def test_a_part_that_is_killed_is_not_the_candidates_fault(tmp_path: Path, device: Device) -> None:
    recipe = recipe_for(candidate(), CUDA_CONTRACT, device)
    script = re.sub(r"^  ptxas .*?(?= \|\| part)", "  sh -c 'kill -9 $$'", recipe.steps[0].script, flags=re.M)
    recipe.write(tmp_path)
    said = subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert "'ptxas' died due to signal 9" in said.stderr and said.returncode == 137
    assert compiler_log.was_killed(said.returncode, said.stderr)


PLAN = """#$ _SPACE_= 
#$ CICC_PATH=/opt/nvvm/bin
#$ rm ./a_dlink.reg.c
#$ gcc -E -D "KERNELTUI_DEFINES=HERE" "kernel.cu" -o "./kernel.cpp4.ii"
#$ cudafe++ --gen_module_id_file --module_id_file_name "./kernel.module_id" "./kernel.cpp4.ii"
#$ gcc -E -D "KERNELTUI_DEFINES=HERE" "kernel.cu" -o "./kernel.cpp1.ii"
#$ "$CICC_PATH/cicc" --module_id_file_name "./kernel.module_id" "./kernel.cpp1.ii"
#$ ptxas "./kernel.ptx"
#$ fatbinary --create="./kernel.fatbin"
#$ gcc -c "./kernel.cudafe1.cpp"
#$ g++ -shared "./kernel.o"
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("#$ ptxas", "#$ something ptxas"),  # another order of work
        ("#$ cudafe++", "#$ cicc"),
        ("--gen_module_id_file", ""),  # the device's half makes the name
        ('cicc" --module_id', 'cicc" --gen_module_id_file --module_id'),
        ("KERNELTUI_DEFINES", "OTHERS"),
        (PLAN, "nvcc fatal   : Unknown option"),
        ("#$ gcc -c", '#$ gcc -c "'),
    ],
)
def test_a_plan_that_is_not_known_is_not_followed(old: str, new: str) -> None:
    assert nvcc_plan.script_of(PLAN) is not None
    assert old in PLAN and nvcc_plan.script_of(PLAN.replace(old, new)) is None


def test_what_the_shell_is_given() -> None:
    text = nvcc_plan.with_defines(nvcc_plan.script_of(PLAN) or "", ["A=1", "B="])
    assert text.count('-D "A=1" -D "B="') == 2 and nvcc_plan.DEFINES_HERE not in text
    assert "export CICC_PATH=/opt/nvvm/bin" in text and "--gen_module_id_file" not in text and "rm " not in text
    assert nvcc_plan.identity("0123456789abcdef" * 4, "relu") == b"_01234567_9_kernel_cu_relu"
