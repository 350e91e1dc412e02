from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltui.errors import KernelTuiError, ProblemError, SettingsError
from kerneltui.problems import (
    forward_arguments,
    init_arguments,
    lint_problem,
    list_problems,
    literal_constants,
    load_problem,
    size_sets,
    sized_source,
    starters,
)
from kerneltui.records import Language, Problem

GOOD = """
import torch

ROWS, WIDTH = 64, 128
SCALE: float = 0.5
SHAPE = (3, 4)
HALF = WIDTH // 2


class Model(torch.nn.Module):
    def __init__(self, scale, shape):
        super().__init__()

    def forward(self, x, mask=None):
        return x


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [SCALE, SHAPE]
"""


def write(folder: Path, text: str | bytes, name: str = "23_Softmax.py") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def message(raised: pytest.ExceptionInfo[KernelTuiError]) -> str:
    return str(raised.value)


# --------------------------------------------------------------------------- what ships


def test_the_seven_problems() -> None:
    expected = [
        "attention_fp16",
        "conv2d",
        "conv2d_relu_maxpool",
        "layernorm",
        "matmul_fp16",
        "matmul_fp32",
        "softmax",
    ]
    assert [problem.name for problem in list_problems()] == expected


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("layernorm", {"BATCH": 16, "FEATURES": 64, "HEIGHT": 256, "WIDTH": 256}),
        ("softmax", {"ROWS": 4096, "WIDTH": 65536}),
        ("conv2d", {"BATCH": 100, "IN_CHANNELS": 3, "OUT_CHANNELS": 96, "SIDE": 224, "KERNEL": 11, "STRIDE": 4}),
        ("conv2d_relu_maxpool", {"BATCH": 100, "PADDING": 2, "POOL": 3, "POOL_STRIDE": 2}),
        ("matmul_fp32", {"M": 4096, "K": 4096, "N_COLS": 4096}),
        ("matmul_fp16", {"M": 4096, "K": 4096, "N_COLS": 4096}),
        ("attention_fp16", {"BATCH": 32, "HEADS": 32, "LENGTH": 1024, "DEPTH": 64}),
    ],
)
def test_sizes_on_a_gpu_are_the_published_ones(name: str, sizes: dict[str, int]) -> None:
    constants = literal_constants(sized_source(load_problem(name), "cuda"))
    assert {key: constants[key] for key in sizes} == sizes


def test_every_shipped_problem_says_where_it_comes_from() -> None:
    for problem in list_problems():
        assert problem.licence == "Apache-2.0"
        assert problem.provenance
        assert problem.notes
        assert set(problem.sizes) == {"cuda", "cpu"}
        assert lint_problem(problem) == []


def test_starters_are_found_by_language() -> None:
    ((name, source),) = starters(load_problem("softmax"), Language.CPP)
    assert name == "starter.cpp"
    assert '#include "contract.h"' in source


# --------------------------------------------------------------------------- finding


def test_a_file_in_kernelbench_form(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    problem = load_problem(str(path))
    assert problem == Problem(name="23_Softmax", title="23 Softmax", source=GOOD, path=str(path))
    assert starters(problem, Language.CPP) == []


def test_a_folder_and_the_files_in_it_are_one_problem(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    write(folder, GOOD, "reference.py")
    write(
        folder,
        'title = "Mine"\ntolerance = "strict"\n[sizes.cpu]\nROWS = 4\n[symbolic]\nWIDTH = [8, 16]',
        "problem.toml",
    )
    problem = load_problem(folder)
    assert (problem.name, problem.title, problem.tolerance) == ("mine", "Mine", "strict")
    assert problem.sizes == {"cpu": {"ROWS": 4}}
    assert problem.symbolic == {"WIDTH": (8, 16)}
    assert load_problem(folder / "problem.toml") == problem
    assert load_problem(folder / "reference.py") == problem


def test_own_folder_of_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    write(tmp_path / "mine", GOOD, "reference.py")
    write(tmp_path / "mine", "", "problem.toml")
    monkeypatch.setenv("KERNELTUI_KERNELS", str(tmp_path))
    assert load_problem("mine").title == "mine"
    assert "softmax" in [problem.name for problem in list_problems()]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("sofmax", "There is no problem `sofmax`, nor a file of that name. Did you mean softmax?"),
        ("zzz", "There is no problem `zzz`, nor a file of that name. Known are attention_fp16, conv2d,"),
        ("", "A problem is a name (see `kerneltui problems`) or the path of a .py file; nothing was given."),
        ("no/such.py", "no/such.py: cannot be read: No such file or directory."),
    ],
)
def test_unknown_problems(name: str, sentence: str) -> None:
    with pytest.raises(ProblemError) as raised:
        load_problem(name)
    assert message(raised).startswith(sentence)


# --------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "the file is empty; a KernelBench-form file defines `class Model`"),
        ("  \n\n", "the file is empty"),
        (b"\x7fELF\0\0", "this is a binary file"),
        ("x = 1\ns = 'é'\n".encode("latin-1"), "line 2 is not UTF-8; save the file as UTF-8."),
        (b"# " + b"x" * 1_100_000, "1.1 MB are too many for a problem file; at most 1000 kB are read."),
        ("def f(:\n  pass", "line 1: Python syntax error: invalid syntax. Correct it and try again."),
        ("x = 1\n\nclass Model(:\n", "line 3: Python syntax error"),
        (GOOD.replace("class Model(", "class Net("), "there is no `class Model`; a KernelBench-form file defines"),
        (GOOD.replace("class Model(", "class ModelNew("), "`ModelNew` is a candidate: name it to `kerneltui eval`."),
        (GOOD.replace("def forward(", "def forwards("), "`Model` has no `forward`"),
        (GOOD.replace("def get_inputs", "def inputs"), "there is no `get_inputs()`; it returns the list of"),
        ("(" * 3000 + ")" * 3000, "Python"),
    ],
)
def test_files_that_are_no_problem(tmp_path: Path, text: str | bytes, part: str) -> None:
    path = write(tmp_path, text, "p.py")
    with pytest.raises(ProblemError) as raised:
        load_problem(path)
    assert message(raised).startswith(f"{path}: ")
    assert part in message(raised)


def test_a_folder_without_problem_toml(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"there is no problem\.toml in this folder"):
        load_problem(tmp_path)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("titel = 'x'", "`titel` is not known; did you mean `title`?"),
        ("title = 3", "`title` is 3; a text is expected."),
        ("tolerance = 'kernelbanch'", "`tolerance` is 'kernelbanch'; did you mean `kernelbench`?"),
        ("[sizes.gpu]\nROWS = 1", "`sizes.gpu` is not known; known are cpu and cuda."),
        ("[sizes.cpu]\nROWS = 0", "`sizes.cpu.ROWS` is 0; a whole number from 1 is expected."),
        ("[sizes.cpu]\nROWS = true", "`sizes.cpu.ROWS` is True; a whole number from 1 is expected."),
        ("[sizes]\ncpu = 3", "`sizes.cpu` is 3; a table of NAME = whole number is expected."),
        ("[symbolic]\nROWS = [4]", "`symbolic.ROWS` is [4]; at least two whole numbers from 1 are expected."),
        ("title = ", "not valid TOML"),
    ],
)
def test_problem_toml_is_taken_at_its_word(tmp_path: Path, text: str, part: str) -> None:
    write(tmp_path, GOOD, "reference.py")
    path = write(tmp_path, text, "problem.toml")
    with pytest.raises(SettingsError) as raised:
        load_problem(tmp_path)
    assert message(raised).startswith(f"{path}: ")
    assert part in message(raised)


def test_sizes_name_constants_that_exist(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "reference.py")
    path = write(tmp_path, "[sizes.cuda]\nHALF = 3", "problem.toml")
    with pytest.raises(ProblemError) as raised:
        load_problem(tmp_path)
    assert message(raised) == (
        f"{path}: `HALF` is no module constant of the reference. "
        "What can be set: ROWS = 64, WIDTH = 128, SCALE = 0.5, SHAPE = (3, 4)."
    )


# --------------------------------------------------------------------------- sizes


def make(source: str, **fields: object) -> Problem:
    return replace(Problem(name="p", title="p", source=source, path="p.py"), **fields)


def test_constants_are_replaced_where_they_stand() -> None:
    problem = make(
        "é = 'é'; A, B = 4, (\n  5)  # A, B = 4\nC = A * 2\nD: int = -1\nE = (1, 2)\ndef get_init_inputs(): ..."
    )
    expected = "é = 'é'; A, B = 40, (\n  50)  # A, B = 4\nC = A * 2\nD: int = 7\nE = (3,)\ndef get_init_inputs(): ..."
    assert sized_source(problem, "cpu", {"A": 40, "B": 50, "D": 7, "E": [3]}) == expected


def test_device_sizes_come_first_and_overrides_last() -> None:
    problem = make(GOOD, sizes={"cpu": {"ROWS": 2, "WIDTH": 4}, "cuda": {"ROWS": 9}})
    assert literal_constants(sized_source(problem, "cpu", {"WIDTH": 8})) == {
        "ROWS": 2,
        "WIDTH": 8,
        "SCALE": 0.5,
        "SHAPE": (3, 4),
    }
    assert literal_constants(sized_source(problem, "cuda"))["ROWS"] == 9


@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        ({"ROW": 1}, "`ROW` is no module constant of the reference. What can be set: ROWS = 64, WIDTH = 128"),
        ({"SHAPE": 1}, "`SHAPE` is (3, 4); 1 cannot stand in its place."),
        ({"ROWS": 1.5}, "`ROWS` is 64; a whole number is expected, not 1.5."),
    ],
)
def test_overrides_that_fit_nothing(overrides: dict[str, object], part: str) -> None:
    with pytest.raises(ProblemError) as raised:
        sized_source(make(GOOD), "cpu", overrides)
    assert part in message(raised)


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_a_replaced_source_holds_what_was_asked(rows: int, width: int) -> None:
    source = sized_source(make(GOOD), "cpu", {"ROWS": rows, "WIDTH": width})
    found = literal_constants(source)
    assert (found["ROWS"], found["WIDTH"]) == (rows, width)
    assert literal_constants(sized_source(make(source), "cpu", {"ROWS": 64, "WIDTH": 128})) == literal_constants(GOOD)


def test_a_reference_without_constructor_arguments_gets_the_function() -> None:
    source = GOOD[: GOOD.index("def get_init_inputs")]
    problem = make(source)
    assert lint_problem(problem) == ["p.py: there is no `get_init_inputs()`; `Model()` is made without arguments."]
    assert sized_source(problem, "cpu").endswith("def get_init_inputs():\n    return []\n")


def test_size_sets_end_with_the_largest() -> None:
    problem = make(GOOD, symbolic={"ROWS": (8, 2), "WIDTH": (4, 16)})
    assert size_sets(problem, "cpu") == [
        {"ROWS": 2, "WIDTH": 4},
        {"ROWS": 2, "WIDTH": 16},
        {"ROWS": 8, "WIDTH": 4},
        {"ROWS": 8, "WIDTH": 16},
    ]
    assert size_sets(problem, "cpu", {"ROWS": 3, "WIDTH": 5}) == [{"ROWS": 3, "WIDTH": 5}]


# --------------------------------------------------------------------------- what the text says


def test_arguments() -> None:
    assert forward_arguments(GOOD) == ["x", "mask"]
    assert init_arguments(GOOD) == ["scale", "shape"]


def test_methods_of_a_base_class_count() -> None:
    source = "class Base:\n  def forward(self, a, b): ...\nclass Model(Base): ...\n"
    assert forward_arguments(source) == ["a", "b"]
    assert init_arguments(source) == []


def test_windows_line_ends_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_problem(path).source == GOOD


def test_nothing_in_the_file_is_run(tmp_path: Path) -> None:
    path = write(tmp_path, f"open({str(tmp_path / 'trace')!r}, 'w')\n{GOOD}")
    load_problem(path)
    assert not (tmp_path / "trace").exists()
