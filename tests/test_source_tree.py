from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kerneltui.contract import contract_from_description
from kerneltui.errors import UsageError
from kerneltui.export.source_tree import Winner, split_after_includes, write_source_tree
from kerneltui.records import Candidate, Idea, Language, Outcome, Problem, Stage, Variant, Verdict

NVCC = shutil.which("nvcc")
CORRECT = Verdict(outcome=Outcome.CORRECT, stage=Stage.DONE)
CPP_SOURCE = """#include "contract.h"
#include <cmath>
#ifndef FACTOR
#define FACTOR 2
#endif
static float helper(float v) { return v * FACTOR; }
int grid(long n) { return (int)n; }
extern "C" int NAME(const float* x, float* out, void* workspace) {
    (void)workspace;
    for (long i = 0; i < N; ++i) out[i] = helper(std::fabs(x[i])) + 0 * grid(N);
    return 0;
}
"""
CUDA_SOURCE = """// Two winners that will live in one program: same helper names, other contents.
#include "contract.h"
__constant__ float factor = FACTOR;
__device__ float helper(float v) { return v * factor; }
__global__ void kernel(const float* x, float* out, long n) { out[0] = helper(x[0]); }
int grid(long n) { return (int)((n + 255) / 256) * FACTOR / FACTOR; }
extern "C" int NAME(const float* x, float* out, void* workspace, cudaStream_t stream) {
    kernel<<<grid(N), 256, 0, stream>>>(x, out, N);
    return (int)cudaGetLastError();
}
"""


def winner(name: str, source: str, language: Language, factor: int = 2, verdict: Verdict | None = CORRECT) -> Winner:
    problem = Problem(name=name, title=f"{name} [/]", source="", path="", licence="MIT")
    tensor = {"dtype": "float32", "shape": [4, 8]}
    description = {"inputs": [{"name": "x", **tensor}], "outputs": [{"name": "out", **tensor}]}
    contract = contract_from_description(problem, description, language)
    candidate = Candidate(
        source=source.replace("NAME", contract.function), language=language, defines=(("FACTOR", str(factor)),)
    )
    variant = Variant(id="v00001", idea="i001", round=1, candidate=candidate.digest)
    idea = Idea(id="i001", round=1, title="scale")
    return Winner(
        session="s",
        problem=problem,
        contract=contract,
        variant=variant,
        candidate=candidate,
        verdict=verdict,
        path=(idea,),
    )


def test_a_ten_line_program_calls_the_exported_kernel(tmp_path: Path) -> None:
    write_source_tree(winner("scale_abs", CPP_SOURCE, Language.CPP), tmp_path / "out")
    (tmp_path / "main.cpp").write_text(
        '#include "out/scale_abs.h"\n#include <cstdio>\n'
        "int main() { float x[32], y[32]; for (int i = 0; i < 32; ++i) x[i] = -i;\n"
        '  int rc = scale_abs(x, y, nullptr); std::printf("%d %g", rc, y[31]); }\n'
    )
    subprocess.run(["g++", "main.cpp", "out/scale_abs.cpp", "-o", "main", "-Wall", "-Werror"], cwd=tmp_path, check=True)
    assert subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True).stdout == "0 62"


def test_the_header_is_plain_c(tmp_path: Path) -> None:
    write_source_tree(winner("scale_abs", CPP_SOURCE, Language.CPP), tmp_path)
    (tmp_path / "use.c").write_text(
        '#include "scale_abs.h"\nint main(void) { float x[32] = {0}, y[32]; return scale_abs(x, y, 0); }\n'
    )
    subprocess.run(["gcc", "-c", "use.c", "-Wall", "-Werror"], cwd=tmp_path, check=True)


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_two_winners_with_equal_helper_names_live_in_one_program(tmp_path: Path, order: tuple[str, str]) -> None:
    factors = {"one": 2, "two": 3}
    for name in order:
        write_source_tree(winner(name, CPP_SOURCE, Language.CPP, factors[name]), tmp_path)
    sources = [f"{name}.cpp" for name in order]
    subprocess.run(["g++", "-shared", "-fPIC", *sources, "-o", "both.so"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "both.so"))
    x, y = (ctypes.c_float * 32)(*([1.0] * 32)), (ctypes.c_float * 32)()
    found = {name: (getattr(library, name)(x, y, None), y[0])[1] for name in order}
    assert factors == found
    names = subprocess.run(
        ["nm", "-D", "--defined-only", "both.so"], cwd=tmp_path, capture_output=True, text=True
    ).stdout
    ours = {line.split()[-1] for line in names.splitlines()}
    assert {"one", "two"} == {name for name in ours if not name.startswith("_ZSt")}  # weak copies of std:: inlines


@pytest.mark.skipif(NVCC is None, reason="needs nvcc")
def test_two_cuda_winners_link_together(tmp_path: Path) -> None:
    for name, factor in (("one", 2), ("two", 3)):
        write_source_tree(winner(name, CUDA_SOURCE, Language.CUDA, factor), tmp_path)
    command = [str(NVCC), "-shared", "-Xcompiler", "-fPIC", "-arch=sm_90", "one.cu", "two.cu", "-o", "both.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    names = subprocess.run(
        ["nm", "-D", "--defined-only", "both.so"], cwd=tmp_path, capture_output=True, text=True
    ).stdout
    ours = {
        line.split()[-1]
        for line in names.splitlines()
        if "kerneltui_" in line or line.split()[-1] in ("one", "two", "grid")
    }
    assert {"one", "two"} == ours


def test_names_that_are_no_c_are_made_legal_and_told(tmp_path: Path) -> None:
    for name in ("23_Softmax (v2)", "switch", "a-b", "a_b"):
        (source,) = [
            f for f in write_source_tree(winner(name, CPP_SOURCE, Language.CPP), tmp_path) if f.suffix == ".cpp"
        ]
        subprocess.run(["g++", "-c", str(source), "-o", "/dev/null"], check=True)
    provenances = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    assert len({p["function"] for p in provenances}) == 4
    assert {"23_Softmax (v2)", "switch", "a-b", "a_b"} == {p["problem"]["name"] for p in provenances}


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "scale_abs.h").write_text("mine")
    with pytest.raises(UsageError, match=r"scale_abs\.h is there already"):
        write_source_tree(winner("scale_abs", CPP_SOURCE, Language.CPP), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["scale_abs.h"]
    assert (tmp_path / "scale_abs.h").read_text() == "mine"


@pytest.mark.parametrize("verdict", [None, Verdict(outcome=Outcome.MISMATCH, stage=Stage.CHECK, message="row 0")])
def test_what_is_not_correct_leaves_only_with_the_word_in_it(tmp_path: Path, verdict: Verdict | None) -> None:
    wrong = winner("scale_abs", CPP_SOURCE, Language.CPP, verdict=verdict)
    with pytest.raises(UsageError, match="not correct"):
        write_source_tree(wrong, tmp_path / "a")
    assert not (tmp_path / "a").exists()
    for path in write_source_tree(wrong, tmp_path / "b", unverified=True):
        assert "unverified" in path.read_text().lower()


def test_provenance_names_ideas_licence_and_conditions(tmp_path: Path) -> None:
    write_source_tree(winner("scale_abs", CPP_SOURCE, Language.CPP), tmp_path)
    told = json.loads((tmp_path / "scale_abs_provenance.json").read_text())
    assert (
        told["problem"]["licence"],
        told["ideas"][0]["title"],
        told["candidate"]["defines"],
    ) == ("MIT", "scale", {"FACTOR": "2"})


def test_includes_under_a_condition_stay_above_the_namespace() -> None:
    source = "#if 1\n#include <cmath>\n#endif\nint x;\n"
    assert split_after_includes(source) == ("#if 1\n#include <cmath>\n#endif\n", "int x;\n")


def test_an_include_inside_braces_is_not_wrapped() -> None:
    source = 'extern "C" {\n#include <math.h>\n}\nint x;\n'
    assert (source, None) == split_after_includes(source)
