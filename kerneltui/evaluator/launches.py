"""Sizes of kernel launches as the source states them, for the words of a launch that the driver refused."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

LAUNCH = re.compile(r"([A-Za-z_]\w*)\s*(?:<[^<>;{}]*>)?\s*<<<(.*?)>>>", re.S)
DIM3 = re.compile(r"\bdim3\s*\(([^()]*)\)")
SUFFIXED = re.compile(r"\b(\d+)[uUlL]+\b")
NODES = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Load)
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Div, ast.Mod, ast.LShift, ast.RShift, ast.USub, ast.UAdd)


def stated_launches(source: str, known: Mapping[str, int]) -> tuple[dict[str, Any], ...]:
    """{"kernel", "block", "shared"} of each `<<<>>>`; None where it is not plain arithmetic on `known` names."""
    names = dict(known) | constants(source)
    found: list[dict[str, Any]] = []
    for launch in LAUNCH.finditer(source):
        parts = split_arguments(launch[2])
        block = evaluate(parts[1], names) if len(parts) > 1 else None
        shared = evaluate(parts[2], names) if len(parts) > 2 else 0
        found.append({"kernel": launch[1], "block": block, "shared": shared})
    return tuple(found)


def constants(source: str) -> dict[str, int]:
    """Names that a `#define`, `constexpr` or `const int` gives a number."""
    pattern = r"(?:#define\s+(\w+)\s+|const(?:expr)?\s+(?:static\s+)?(?:unsigned\s+)?\w+\s+(\w+)\s*=\s*)([\w\s()*+/<>-]+?)\s*(?:;|$)"
    values: dict[str, int] = {}
    for one in re.finditer(pattern, source, re.M):
        value = evaluate(one[3], values)
        if value is not None:
            values[one[1] or one[2]] = value
    return values


def split_arguments(text: str) -> list[str]:
    """At commas outside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += letter in "([{"
        depth -= letter in ")]}"
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def evaluate(text: str, names: Mapping[str, int]) -> int | None:
    """A whole number; None for anything that is not arithmetic."""
    dims = DIM3.fullmatch(text.strip())
    if dims:
        sizes = [evaluate(part, names) for part in dims[1].split(",")]
        product = 1
        for size in sizes:
            product *= size if size is not None else 0
        return product or None
    plain = SUFFIXED.sub(r"\1", text.strip())
    try:
        tree = ast.parse(plain, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not all(isinstance(node, NODES + OPERATORS) for node in ast.walk(tree)):
        return None
    return calculate(tree.body, names)


def calculate(node: ast.expr, names: Mapping[str, int]) -> int | None:
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.UnaryOp):
        inner = calculate(node.operand, names)
        return None if inner is None else (-inner if isinstance(node.op, ast.USub) else inner)
    if not isinstance(node, ast.BinOp):
        return None
    left, right = calculate(node.left, names), calculate(node.right, names)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
        return {ast.Add: left + right, ast.Sub: left - right, ast.Mult: left * right}[type(node.op)]
    if isinstance(node.op, ast.LShift | ast.RShift):
        return (left << right if isinstance(node.op, ast.LShift) else left >> right) if 0 <= right < 64 else None
    return None if right == 0 else (left % right if isinstance(node.op, ast.Mod) else left // right)
