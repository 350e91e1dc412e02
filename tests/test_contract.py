from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltui.contract import c_name, contract_from_description, prototype, skeleton, words
from kerneltui.errors import ProblemError
from kerneltui.records import Contract, Language, Problem

PROBLEM = Problem(name="mine", title="Mine", source="", path="mine.py")
CUDA, CPP = Language.CUDA, Language.CPP


def tensor(name: str, shape: list[int], dtype: str = "float32") -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": shape}


def make(language: Language = CPP, problem: Problem = PROBLEM, **description: Any) -> Contract:
    described = {"inputs": [tensor("x", [4, 6])], "outputs": [tensor("out", [4, 6])], **description}
    return contract_from_description(problem, described, language)


FULL: dict[str, Any] = {
    "inputs": [tensor("x", [2, 3, 8], "float16"), tensor("keep", [2], "bool"), tensor("index", [5], "int64")],
    "scalars": [
        {"name": "eps", "value": 1e-5},
        {"name": "kernel_size", "value": (3, 5)},
        {"name": "causal", "value": True},
        {"name": "mode", "value": "linear"},
        {"name": "limit", "value": float("inf")},
        {"name": "gamma", "value": 2},
    ],
    "parameters": [tensor("norm.weight", [8], "bfloat16"), tensor("norm.bias", [8])],
    "buffers": [tensor("norm.count", [], "int32")],
    "outputs": [tensor("out0", [2, 3]), tensor("out1", [2], "float64")],
}


# --------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("softmax", "softmax"),
        ("a_b", "a_b"),
        ("Conv2d", "Conv2d"),
        ("a-b", r"a_b_[0-9a-f]{4}"),
        ("23_Softmax (v2)", r"k23_Softmax_v2_[0-9a-f]{4}"),
        ("switch", r"switch_[0-9a-f]{4}"),
        ("printf", r"printf_[0-9a-f]{4}"),
        ("main", r"main_[0-9a-f]{4}"),
        ("std", r"std_[0-9a-f]{4}"),
        ("N", r"N_[0-9a-f]{4}"),
        ("stream", r"stream_[0-9a-f]{4}"),
        ("_hidden", r"hidden_[0-9a-f]{4}"),
        ("a__b", r"a_b_[0-9a-f]{4}"),
        ("試し", r"k_[0-9a-f]{4}"),
        ("", r"k_[0-9a-f]{4}"),
    ],
)
def test_c_names(name: str, expected: str) -> None:
    assert re.fullmatch(expected, c_name(name))


@given(st.lists(st.text(max_size=12), min_size=2, max_size=6, unique=True))
def test_names_are_legal_and_stay_what_they_are(names: list[str]) -> None:
    for name in names:
        assert re.fullmatch(r"[A-Za-z][0-9A-Za-z_]*", c_name(name))


def test_names_that_look_alike_stay_apart() -> None:
    names = ["a-b", "a_b", "a b", "a.b", "a+b"]
    assert len({c_name(name) for name in names}) == len(names)


# --------------------------------------------------------------------------- signatures


def test_the_smallest_contract() -> None:
    contract = make()
    assert prototype(contract) == "int mine(const float* x, float* out, void* workspace)"
    assert contract.constants == (
        ("int64_t", "x_numel", "24"),
        ("int64_t", "x_dim0", "4"),
        ("int64_t", "x_dim1", "6"),
        ("int64_t", "out_numel", "24"),
        ("int64_t", "out_dim0", "4"),
        ("int64_t", "out_dim1", "6"),
        ("int64_t", "N", "24"),
    )


def test_arguments_in_order_with_their_types() -> None:
    contract = make(CUDA, **FULL)
    assert prototype(contract) == (
        "int mine(const __half* x, const bool* keep, const int64_t* index, const __nv_bfloat16* norm_weight, "
        "const float* norm_bias, const int32_t* norm_count, float* out0, double* out1, void* workspace, "
        "cudaStream_t stream)"
    )
    assert [(t.role, t.origin) for t in contract.tensors[3:6]] == [
        ("parameter", "norm.weight"),
        ("parameter", "norm.bias"),
        ("buffer", "norm.count"),
    ]
    assert "const _Float16* x" in prototype(make(CPP, **FULL))
    assert "const uint16_t* norm_weight" in prototype(make(CPP, **FULL))


def test_scalars_become_constants() -> None:
    constants = make(**FULL).constants
    assert constants[:6] == (
        ("double", "eps", "1e-05"),
        ("int64_t", "kernel_size_0", "3"),
        ("int64_t", "kernel_size_1", "5"),
        ("bool", "causal", "true"),
        ("double", "limit", "__builtin_inf()"),
        ("int64_t", "gamma_", "2"),  # <cmath> has a function of that name
    )
    assert "N" not in [name for _, name, _ in constants]


def test_names_that_collide_get_an_underscore() -> None:
    contract = make(
        inputs=[tensor("class", [2]), tensor("x", [2]), tensor("x_numel", [2]), tensor("workspace", [2])],
        scalars=[{"name": "N", "value": 3}],
    )
    assert [t.name for t in contract.tensors] == ["class_", "x", "x_numel", "workspace_", "out"]
    names = [name for _, name, _ in contract.constants]
    assert {"N", "x_numel_", "x_numel_numel"} <= set(names)
    assert len(names) == len(set(names))


# --------------------------------------------------------------------------- symbolic sizes


def sized(batch: int, extra: int) -> dict[str, Any]:
    return {
        "symbols": {"BATCH": batch, "WIDTH": extra},
        "inputs": [tensor("x", [batch, extra]), tensor("y", [2 * batch, extra + 3, extra // 2, 7])],
        "outputs": [tensor("out", [batch * extra])],
    }


def test_dimensions_follow_their_symbols() -> None:
    sets = [sized(2, 8), sized(2, 32), sized(6, 8), sized(6, 32)]
    contract = make(**{**sets[-1], "sizes": sets})
    assert prototype(contract) == (
        "int mine(const float* x, const float* y, float* out, int64_t BATCH, int64_t WIDTH, void* workspace)"
    )
    assert [t.symbols for t in contract.tensors] == [
        ("BATCH", "WIDTH"),
        ("2 * BATCH", "WIDTH + 3", "WIDTH / 2", None),
        ("BATCH * WIDTH",),
    ]
    assert contract.constants == (("int64_t", "y_dim3", "7"),)
    assert "// x: input, float32, (BATCH, WIDTH)" in contract.header
    assert "size_t mine_workspace(int64_t BATCH, int64_t WIDTH);" in contract.header


def test_a_dimension_that_follows_nothing_is_refused() -> None:
    sets = [
        {"symbols": {"B": b}, "inputs": [tensor("x", [b])], "outputs": [tensor("out", [o])]}
        for b, o in [(2, 9), (4, 5)]
    ]
    with pytest.raises(ProblemError) as raised:
        make(**{**sets[-1], "sizes": sets})
    assert str(raised.value).startswith("mine.py: dimension 0 of `out` varies (9, 5) but follows no symbolic size.")


def test_a_rank_that_changes_is_refused() -> None:
    sets = [
        {"symbols": {"B": 1}, "inputs": [tensor("x", [1])], "outputs": [tensor("out", [1])]},
        {"symbols": {"B": 4}, "inputs": [tensor("x", [4])], "outputs": [tensor("out", [4, 1])]},
    ]
    with pytest.raises(ProblemError, match="changes its number of dimensions"):
        make(**{**sets[-1], "sizes": sets})


# --------------------------------------------------------------------------- what has no signature


@pytest.mark.parametrize(
    ("outputs", "part"),
    [
        ([], "mine.py: the reference returned no tensor. No C signature can say this, so only module candidates"),
        ([tensor("out", [2], "complex64")], "mine.py: output `out` is complex64. No C signature"),
        ([{"name": "out", "type": "dict"}], "mine.py: output `out` is dict, not a tensor. No C signature"),
    ],
)
def test_no_signature(outputs: list[dict[str, Any]], part: str) -> None:
    with pytest.raises(ProblemError) as raised:
        make(outputs=outputs)
    assert part in str(raised.value)


# --------------------------------------------------------------------------- text


def test_comments_cannot_be_left_by_names() -> None:
    problem = Problem(name="evil */ \n#error \\", title="two\nlines \\", source="", path="p.py")
    header = make(problem=problem).header
    assert "#error" not in [line[:6] for line in header.splitlines()]
    assert not any(line.rstrip().endswith("\\") for line in header.splitlines())


def test_words_say_everything_an_author_needs() -> None:
    text = words(make(CUDA, **FULL))
    for part in (
        'extern "C" int mine(const __half* x',
        "- norm_weight: parameter, bfloat16, (8) (`norm.weight` in Python)",
        "- eps = 1e-05 (double)",
        "256-byte aligned",
        "`size_t mine_workspace()`",
        "Launch everything on `stream`",
        "Write every element of every output",
    ):
        assert part in text
    assert "stream" not in words(make(CPP))


def test_the_digest_moves_with_a_shape() -> None:
    assert make().digest == make().digest
    assert make().digest != make(inputs=[tensor("x", [4, 7])]).digest


# --------------------------------------------------------------------------- compilers


def contracts(language: Language) -> list[Contract]:
    sets = [sized(2, 8), sized(2, 32), sized(6, 8), sized(6, 32)]
    odd = Problem(name="23_Softmax (v2)", title="\\", source="", path="p.py")
    return [
        make(language),
        make(language, **FULL),
        make(language, problem=odd),
        make(language, **{**sets[-1], "sizes": sets}),
    ]


def compile_each(argv: list[str], language: Language, name: str, folder: Path) -> None:
    for contract in contracts(language):
        (folder / "contract.h").write_text(contract.header)
        # Math and CUDA names are in sight, as they are in real kernels.
        text = '#include <cmath>\n#include <cstdlib>\n#include "contract.h"\n' + skeleton(contract)
        (folder / name).write_text(text)
        done = subprocess.run([*argv, name], cwd=folder, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_headers_compile_for_the_host(tmp_path: Path) -> None:
    argv = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    compile_each(argv, CPP, "kernel.cpp", tmp_path)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc here")
def test_headers_compile_for_cuda(tmp_path: Path) -> None:
    compile_each(["nvcc", "-cubin", "-arch=sm_90a", "-o", "kernel.cubin"], CUDA, "kernel.cu", tmp_path)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_a_wrong_signature_is_a_compile_error(tmp_path: Path) -> None:
    (tmp_path / "contract.h").write_text(make().header)
    wrong = '#include "contract.h"\nextern "C" int mine(float* x, float* out, void*) { return x != out; }\n'
    (tmp_path / "kernel.cpp").write_text(wrong)
    done = subprocess.run(["g++", "-fsyntax-only", "kernel.cpp"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "conflicting declaration of C function" in done.stderr


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_only_the_contract_is_exported(tmp_path: Path) -> None:
    contract = make()
    (tmp_path / "contract.h").write_text(contract.header)
    (tmp_path / "kernel.cpp").write_text(skeleton(contract) + "int helper() { return 1; }\n")
    argv = ["g++", "-shared", "-fPIC", "-fvisibility=hidden", "kernel.cpp", "-o", "kernel.so"]
    subprocess.run(argv, cwd=tmp_path, check=True)
    listing = subprocess.run(["nm", "-D", "--defined-only", "kernel.so"], cwd=tmp_path, capture_output=True, text=True)
    assert [line.split()[-1] for line in listing.stdout.splitlines()] == ["mine"]
