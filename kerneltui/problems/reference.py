"""What the text of a reference says, by its syntax tree: its parts, its arguments, its constants. Never imported, never run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerneltui.errors import ProblemError

FORM = "a KernelBench-form file defines `class Model` with `forward`, and `get_inputs()`"


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


# --------------------------------------------------------------------------- names


def forward_arguments(source: str) -> list[str]:
    """Names of forward's positional arguments, without self; `*args` gives none."""
    found = forward_of(ast.parse(source))
    return argument_names(found) if found else []


def init_arguments(source: str) -> list[str]:
    """Names of the constructor's positional arguments, without self."""
    tree = ast.parse(source)
    found = method_of(tree, "Model", "__init__", set())
    return argument_names(found) if found else []


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
