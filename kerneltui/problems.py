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
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerneltui.errors import ProblemError, SettingsError, nearest
from kerneltui.records import Language, Problem

SOURCE_LIMIT_BYTES = 1_000_000  # a reference is a page or two; more is a mistake, and ast would take long over it
TOLERANCES = ("kernelbench", "crfm", "strict")
KINDS = ("cuda", "cpu")
SUFFIXES = {Language.CUDA: ".cu", Language.CPP: ".cpp", Language.PYTHON: ".py"}
FORM = "a KernelBench-form file defines `class Model` with `forward`, and `get_inputs()`"


# --------------------------------------------------------------------------- finding


def kernel_folders() -> list[Path]:
    """Where problems are known by name, first come first served: $KERNELTUI_KERNELS, then what ships with us."""
    named = os.environ.get("KERNELTUI_KERNELS", "")
    folders = [Path(part).expanduser() for part in named.split(os.pathsep) if part]
    package = Path(__file__).resolve().parent
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


def parse_reference(source: str, path: Path | str) -> ast.Module:
    """The syntax tree of a reference that has all its parts."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in a string is the author's business
            tree = ast.parse(source)
    except SyntaxError as error:
        raise ProblemError(
            f"{path}: line {error.lineno}: Python syntax error: {error.msg}. Correct it and try again."
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ProblemError(f"{path}: Python cannot parse this file ({error or type(error).__name__}).") from error
    if class_named(tree, "Model") is None:
        extra = " `ModelNew` is a candidate: name it to `kerneltui eval`." if class_named(tree, "ModelNew") else ""
        raise ProblemError(f"{path}: there is no `class Model`; {FORM}.{extra}")
    if forward_of(tree) is None:
        raise ProblemError(f"{path}: `Model` has no `forward`; {FORM}.")
    if "get_inputs" not in bound_names(tree):
        raise ProblemError(f"{path}: there is no `get_inputs()`; it returns the list of forward's arguments.")
    return tree


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
            raise SettingsError(f"{path}: `sizes.{kind}` is not known{nearest(kind, KINDS)}")
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


# --------------------------------------------------------------------------- module constants


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A literal at module level, and where its text lies."""

    name: str
    value: Any
    node: ast.expr


def literal_constants(source: str) -> dict[str, Any]:
    """Module constants given as numbers or tuples of numbers, in order: what `sized_source` can replace."""
    return {constant.name: constant.value for constant in find_constants(ast.parse(source))}


def find_constants(tree: ast.Module) -> Iterator[Constant]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from pair_constants(target, statement.value)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            yield from pair_constants(statement.target, statement.value)


def pair_constants(target: ast.expr, value: ast.expr) -> Iterator[Constant]:
    """`NAME = 4`, `SHAPE = (4, 5)` and `ROWS, WIDTH = 4, 5`."""
    if isinstance(target, ast.Name):
        try:
            literal = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError):
            return
        if is_number(literal) or (isinstance(literal, tuple) and literal and all(map(is_number, literal))):
            yield Constant(name=target.id, value=literal, node=value)
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for part, item in zip(target.elts, value.elts, strict=True):
            yield from pair_constants(part, item)


def is_number(value: object) -> bool:
    return isinstance(value, int | float)


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


def write_literal(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"({', '.join(map(repr, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


def place(node: ast.expr) -> tuple[int, int, int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def replace_text(source: str, edits: Mapping[tuple[int, int, int, int], str]) -> str:
    """Edits by position as ast counts: lines from 1, columns in UTF-8 bytes. From the end, so that places stay true."""
    lines = [line.encode("utf-8") for line in source.split("\n")]
    for (first, start, last, end), text in sorted(edits.items(), reverse=True):
        lines[first - 1 : last] = [lines[first - 1][:start] + text.encode() + lines[last - 1][end:]]
    return b"\n".join(lines).decode("utf-8")


def size_sets(problem: Problem, device_kind: str, overrides: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Override tables for `sized_source`, the largest last: one per combination of symbolic sizes, or just `overrides`.

    A symbolic size that is overridden is fixed.
    """
    fixed = dict(overrides or {})
    symbolic = {name: sorted(values) for name, values in problem.symbolic.items() if name not in fixed}
    return [{**fixed, **dict(zip(symbolic, values, strict=True))} for values in itertools.product(*symbolic.values())]


# --------------------------------------------------------------------------- what the text says


def forward_arguments(source: str) -> list[str]:
    """Names of forward's positional arguments, without self; `*args` gives none."""
    found = forward_of(ast.parse(source))
    return argument_names(found) if found else []


def init_arguments(source: str) -> list[str]:
    """Names of the constructor's positional arguments, without self."""
    tree = ast.parse(source)
    found = method_of(tree, "Model", "__init__", set())
    return argument_names(found) if found else []


def lint_problem(problem: Problem) -> list[str]:
    """Remarks that do not stop a search."""
    names = bound_names(ast.parse(problem.source))
    if "get_init_inputs" in names:
        return []
    return [f"{problem.path}: there is no `get_init_inputs()`; `Model()` is made without arguments."]


def argument_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return names[1:]


def class_named(tree: ast.Module, name: str) -> ast.ClassDef | None:
    found = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    return found[-1] if found else None  # the last definition is the one Python keeps


def forward_of(tree: ast.Module) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    return method_of(tree, "Model", "forward", set())


def method_of(tree: ast.Module, owner: str, name: str, seen: set[str]) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """A method of a class, or of its bases as far as they are in the same file."""
    found = class_named(tree, owner)
    if found is None or owner in seen:
        return None
    for node in reversed(found.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return node
    bases = [base.id for base in found.bases if isinstance(base, ast.Name)]
    inherited = (method_of(tree, base, name, seen | {owner}) for base in bases)
    return next((method for method in inherited if method is not None), None)


def bound_names(tree: ast.Module) -> set[str]:
    """Names that the module binds at its top level."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names.update(alias.asname or alias.name for alias in node.names)
    return names


def title_of(tree: ast.Module) -> str:
    """First line of the module's docstring."""
    return (ast.get_docstring(tree) or "").split("\n")[0].strip().rstrip(".")


def dtype_of(tree: ast.Module) -> str:
    """The half type that the file names, if any; the judge sees the true ones."""
    words = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    if words & {"bfloat16"}:
        return "bfloat16"
    return "float16" if words & {"float16", "half"} else "float32"


# --------------------------------------------------------------------------- starters


def starters(problem: Problem, language: Language) -> list[tuple[str, str]]:
    """(file name, source) of the simple kernels that ship with a problem."""
    if problem.folder is None:
        return []
    return [(path.name, read_text(path)) for path in starter_paths(Path(problem.folder), language)]


def starter_paths(folder: Path, language: Language) -> Iterable[Path]:
    return sorted(folder.glob(f"starter*{SUFFIXES[language]}"))
