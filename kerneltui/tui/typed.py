"""What people type: paths of kernels, and budgets in words. Pure but for reading the file."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Any

from kerneltui.records import Budget, Language

FILE_LIMIT_BYTES = 2_000_000  # no kernel is longer
SUFFIXES = {".cu": Language.CUDA, ".cuh": Language.CUDA, ".cpp": Language.CPP, ".cc": Language.CPP, ".cxx": Language.CPP,
            ".c": Language.CPP, ".py": Language.PYTHON}  # fmt: skip
_SPAN = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


def language_of(path: str, otherwise: Language) -> Language:
    """By the file's suffix."""
    return SUFFIXES.get(Path(path).suffix.lower(), otherwise) if path else otherwise


def read_kernel(path: str) -> tuple[str, str]:
    """A file's text, or one sentence on why it is none."""
    file = Path(path.strip()).expanduser()
    if not path.strip():
        return "", "give a path, or press tab and write below"
    try:
        size = file.stat().st_size
        if size > FILE_LIMIT_BYTES:
            return "", f"{file} has {size / 1e6:.0f} MB; a kernel has at most {FILE_LIMIT_BYTES / 1e6:.0f}"
        data = file.read_bytes()
    except OSError as error:
        return "", f"{file}: {error.strerror or error}"
    if not data.strip():
        return "", f"{file} is empty"
    if b"\0" in data:
        return "", f"{file} is binary; the source is wanted"
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace"), ""


_BUDGET_NAMES = {"wall": "wall_s", "time": "wall_s", "cost": "usd", "dollars": "usd", "target": "target_speedup",
                 "plateau": "plateau_rounds"}  # fmt: skip


def read_budget(text: str, rounds: int, budget: Budget) -> dict[str, Any]:
    """`usd 40, rounds +2, wall 2h` as a payload.

    Raises:
        ValueError: says what cannot be read.
    """
    payload: dict[str, Any] = {}
    parts = [part for part in re.split(r"[,;]", text) if part.strip()]
    for part in parts:
        name, _, value = part.strip().replace("=", " ").partition(" ")
        key, value = _BUDGET_NAMES.get(name, name), value.strip().lstrip("$")
        if key != "rounds" and key not in Budget.__dataclass_fields__:
            raise ValueError(f"{name!r} is no budget: rounds, usd, tokens, evaluations, wall, target, plateau")
        now = rounds if key == "rounds" else getattr(budget, key) or 0
        payload[key] = None if value in ("off", "none") and key != "rounds" else _amount(name, value, float(now))
    if not payload:
        raise ValueError("such as: rounds +2, usd 40, wall 2h")
    return payload


def _amount(name: str, value: str, now: float) -> float | int:
    more = value.startswith("+")
    match = _SPAN.fullmatch(value.lstrip("+").replace(",", "").replace(" ", ""))
    if not match or not any(match.groups()):
        raise ValueError(f"{name} wants a number such as 40, +2 or 2h30m, not {value!r}")
    hours, minutes, rest = (float(part or 0) for part in match.groups())
    amount = hours * 3600 + minutes * 60 + rest + (now if more else 0)
    return int(amount) if amount == int(amount) else amount
