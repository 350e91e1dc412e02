"""kernels/<problem>/ or a KernelBench-form file -> Problem. Parsed with ast; never imported, never run.

load_problem, list_problems      find and read
sized_source                     the reference with other module constants, as the judge runs it
forward_arguments, ...           what the text alone says of the reference
starters                         kernels that ship with a problem
"""

from __future__ import annotations

import ast
import difflib
import itertools
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kerneltui.errors import ProblemError, SettingsError, nearest
from kerneltui.problems.reference import (
    FORM,
    bound_names,
    dtype_of,
    find_constants,
    parse_reference,
    place,
    replace_text,
    title_of,
    write_literal,
)
from kerneltui.problems.reference import forward_arguments as forward_arguments
from kerneltui.problems.reference import init_arguments as init_arguments
from kerneltui.problems.reference import literal_constants as literal_constants
from kerneltui.records import Language, Problem

SOURCE_LIMIT_BYTES = 1_000_000  # a reference is a page or two; more is a mistake, and ast would take long over it
TOLERANCES = ("kernelbench", "crfm", "strict")
KINDS = ("cuda", "cpu")
SUFFIXES = {Language.CUDA: ".cu", Language.CPP: ".cpp", Language.PYTHON: ".py"}


# --------------------------------------------------------------------------- finding


def kernel_folders() -> list[Path]:
    """Where problems are known by name, first come first served: $KERNELTUI_KERNELS, then what ships with us."""
    named = os.environ.get("KERNELTUI_KERNELS", "")
    folders = [Path(part).expanduser() for part in named.split(os.pathsep) if part]
    package = Path(__file__).resolve().parent.parent
    # Beside an installed package `kernels` would be somebody else's.
    checkout = package.parent / "pyproject.toml"
    folders += [package.parent / "kernels"] if checkout.is_file() else [package / "_data" / "kernels"]
    return [folder for folder in folders if folder.is_dir()]


def problem_folders() -> dict[str, Path]:
    """Every problem known by name, sorted."""
    found: dict[str, Path] = {}
    for folder in kernel_folders():
        for entry in sorted(folder.iterdir()):
            if (entry / "problem.toml").is_file():
                found.setdefault(entry.name, entry)
    return dict(sorted(found.items()))


def list_problems() -> list[Problem]:
    """Every problem known by name.

    Raises:
        ProblemError, SettingsError: one of them cannot be read.
    """
    return [read_folder(folder) for folder in problem_folders().values()]


def load_problem(name_or_path: str | os.PathLike[str]) -> Problem:
    """The problem of a known name, of a folder with problem.toml, or of a KernelBench-form .py file.

    Raises:
        ProblemError: there is no such problem, or its reference is unusable.
        SettingsError: its problem.toml is.
    """
    text = os.fspath(name_or_path)
    if not text.strip() or "\0" in text:
        raise ProblemError(
            "A problem is a name (see `kerneltui problems`) or the path of a .py file; nothing was given."
        )
    folder = problem_folders().get(text)
    if folder is not None:
        return read_folder(folder)
    path = Path(text).expanduser()
    if path.is_dir():
        return read_folder(path)
    if path.name == "problem.toml" or (path.name == "reference.py" and (path.parent / "problem.toml").is_file()):
        return read_folder(path.parent)
    if path.suffix == ".py" or path.exists():
        return read_file(path)
    raise ProblemError(unknown_problem(text))


def unknown_problem(text: str) -> str:
    known = list(problem_folders())
    close = difflib.get_close_matches(text.casefold(), known, n=3, cutoff=0.5)
    advice = f"Did you mean {' or '.join(close)}?" if close else f"Known are {', '.join(known) or 'none'}."
    return f"There is no problem `{text}`, nor a file of that name. {advice} A path to a .py file works too."


# --------------------------------------------------------------------------- reading


def read_file(path: Path) -> Problem:
    """A KernelBench-form file."""
    source = read_text(path)
    tree = parse_reference(source, path)
    return Problem(
        name=path.stem,
        title=title_of(tree) or path.stem.replace("_", " "),
        source=source,
        path=str(path),
        dtype=dtype_of(tree),
    )


def read_folder(folder: Path) -> Problem:
    """A folder with problem.toml and reference.py."""
    path = folder / "problem.toml"
    if not path.is_file():
        raise ProblemError(
            f"{folder}: there is no problem.toml in this folder. Name a .py file, or add one beside reference.py."
        )
    table = read_table(path)
    reference = folder / "reference.py"
    source = read_text(reference)
    tree = parse_reference(source, reference)
    problem = Problem(
        name=folder.resolve().name,
        title=str(table.get("title") or title_of(tree) or folder.resolve().name),
        source=source,
        path=str(reference),
        folder=str(folder),
        dtype=str(table.get("dtype") or dtype_of(tree)),
        tolerance=str(table.get("tolerance", "kernelbench")),
        licence=str(table.get("licence", "unknown")),
        provenance=str(table.get("provenance", "")),
        notes=str(table.get("notes", "")).strip(),
        sizes={kind: dict(sizes) for kind, sizes in table.get("sizes", {}).items()},
        symbolic={name: tuple(values) for name, values in table.get("symbolic", {}).items()},
        allow_nan=bool(table.get("allow_nan", False)),
    )
    for name in itertools.chain(problem.symbolic, *problem.sizes.values()):
        check_constant(problem, name, where=str(path))
    return problem


def read_text(path: Path) -> str:
    """Python source as text with plain newlines."""
    try:
        if path.exists() and not path.is_file():
            raise ProblemError(f"{path}: not a file. {FORM[0].upper()}{FORM[1:]}.")
        size = path.stat().st_size
        if size > SOURCE_LIMIT_BYTES:
            limit = SOURCE_LIMIT_BYTES // 1000
            raise ProblemError(
                f"{path}: {size / 1e6:.1f} MB are too many for a problem file; at most {limit} kB are read."
            )
        data = path.read_bytes()
    except OSError as error:
        raise ProblemError(
            f"{path}: cannot be read: {error.strerror or error}. Check the path and its permissions."
        ) from error
    if b"\0" in data:
        raise ProblemError(f"{path}: this is a binary file; {FORM}.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ProblemError(f"{path}: line {line} is not UTF-8; save the file as UTF-8.") from error
    if not text.strip():
        raise ProblemError(f"{path}: the file is empty; {FORM}.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


# --------------------------------------------------------------------------- problem.toml

WANTED: dict[str, tuple[type, str]] = {
    "title": (str, "a text"),
    "dtype": (str, "a text such as float32"),
    "tolerance": (str, f"one of {', '.join(TOLERANCES)}"),
    "licence": (str, "a text such as Apache-2.0"),
    "provenance": (str, "a text"),
    "notes": (str, "a text"),
    "allow_nan": (bool, "true or false"),
    "sizes": (dict, "tables [sizes.cuda] and [sizes.cpu]"),
    "symbolic": (dict, "a table of NAME = [whole numbers]"),
}


def read_table(path: Path) -> dict[str, Any]:
    """problem.toml, every key and type checked."""
    try:
        table = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8; save the file as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}.") from error
    for key, value in table.items():
        if key not in WANTED:
            raise SettingsError(f"{path}: `{key}` is not known{nearest(key, WANTED)}")
        kind, words = WANTED[key]
        if not isinstance(value, kind):
            raise SettingsError(f"{path}: `{key}` is {value!r}; {words} is expected.")
    if table.get("tolerance", TOLERANCES[0]) not in TOLERANCES:
        raise SettingsError(f"{path}: `tolerance` is {table['tolerance']!r}{nearest(table['tolerance'], TOLERANCES)}")
    check_sizes(path, table)
    return table


def check_sizes(path: Path, table: Mapping[str, Any]) -> None:
    for kind, sizes in table.get("sizes", {}).items():
        if kind not in KINDS:
            raise SettingsError(f"{path}: `sizes.{kind}` is not known; known are cpu and cuda.")
        if not isinstance(sizes, dict):
            raise SettingsError(f"{path}: `sizes.{kind}` is {sizes!r}; a table of NAME = whole number is expected.")
        for name, value in sizes.items():
            if not is_size(value):
                raise SettingsError(f"{path}: `sizes.{kind}.{name}` is {value!r}; a whole number from 1 is expected.")
    for name, values in table.get("symbolic", {}).items():
        if not isinstance(values, list) or len(values) < 2 or not all(map(is_size, values)):
            raise SettingsError(
                f"{path}: `symbolic.{name}` is {values!r}; at least two whole numbers from 1 are expected."
            )


def is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


# --------------------------------------------------------------------------- sizes


def sized_source(problem: Problem, device_kind: str, overrides: Mapping[str, Any] | None = None) -> str:
    """The reference with the sizes for a kind of device, then `overrides`, in place of its module constants.

    A reference without `get_init_inputs` gets one that returns an empty list.

    Raises:
        ProblemError: an override names no module constant, or is of another kind.
    """
    values: dict[str, Any] = {**problem.sizes.get(device_kind, {}), **(overrides or {})}
    tree = ast.parse(problem.source)
    for name, value in values.items():
        check_constant(problem, name, value=value)
    # Several names of one assignment share its text: edits are kept by place.
    edits = {place(c.node): write_literal(values[c.name]) for c in find_constants(tree) if c.name in values}
    source = replace_text(problem.source, edits)
    if "get_init_inputs" not in bound_names(tree):
        source = source.rstrip("\n") + "\n\n\ndef get_init_inputs():\n    return []\n"
    return source


def check_constant(problem: Problem, name: str, *, value: Any = None, where: str = "") -> None:
    constants = literal_constants(problem.source)
    if name not in constants:
        listing = ", ".join(f"{key} = {value}" for key, value in constants.items()) or "none"
        raise ProblemError(
            f"{where or problem.path}: `{name}` is no module constant of the reference. What can be set: {listing}."
        )
    old = constants[name]
    if value is not None and isinstance(old, tuple) != isinstance(value, tuple | list):
        raise ProblemError(f"{where or problem.path}: `{name}` is {old!r}; {value!r} cannot stand in its place.")
    if isinstance(old, int) and isinstance(value, float):
        raise ProblemError(f"{where or problem.path}: `{name}` is {old!r}; a whole number is expected, not {value!r}.")


def lint_problem(problem: Problem) -> list[str]:
    """Remarks that do not stop a search."""
    names = bound_names(ast.parse(problem.source))
    if "get_init_inputs" in names:
        return []
    return [f"{problem.path}: there is no `get_init_inputs()`; `Model()` is made without arguments."]


def size_sets(problem: Problem, device_kind: str, overrides: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Override tables for `sized_source`, the largest last: one per combination of symbolic sizes, or just `overrides`.

    A symbolic size that is overridden is fixed.
    """
    fixed = dict(overrides or {})
    symbolic = {name: sorted(values) for name, values in problem.symbolic.items() if name not in fixed}
    return [{**fixed, **dict(zip(symbolic, values, strict=True))} for values in itertools.product(*symbolic.values())]


# --------------------------------------------------------------------------- starters


def starters(problem: Problem, language: Language) -> list[tuple[str, str]]:
    """(file name, source) of the simple kernels that ship with a problem."""
    if problem.folder is None:
        return []
    return [(path.name, read_text(path)) for path in starter_paths(Path(problem.folder), language)]


def starter_paths(folder: Path, language: Language) -> Iterable[Path]:
    return sorted(folder.glob(f"starter*{SUFFIXES[language]}"))
