"""Recorded tuning spaces: Kernel Tuner's cache files, and synthetic ones of the same form.

Space        every setting that was measured, with its time
read_cache   a cache file (.json or .json.gz), closed or cut off, into a Space
synthetic    a Space from a seeded model: effects that multiply, interactions, cliffs, settings that fail
dump_cache   a Space as a cache file
"""

from __future__ import annotations

import gzip
import itertools
import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LARGEST_TIME = 1e19  # cache files of some versions mark a failure by 1e20
Point = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A tuning space with the time of every setting; None: it failed."""

    name: str
    values: dict[str, list[Any]]  # every tunable, those with one value too
    times: dict[Point, float | None]  # by rank in the values of each tunable

    @property
    def best(self) -> float:
        return min(time for time in self.times.values() if time is not None)


def read_cache(path: Path) -> Space:
    """The space of a cache file.

    Raises:
        ValueError: it is no cache file, or nothing in it has a time.
    """
    data = path.read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8", "replace")
    cache = parse_cache(text)
    entries = cache.get("cache")
    names = cache.get("tune_params_keys") or list(cache.get("tune_params", {}))
    if not isinstance(entries, dict) or not names:
        raise ValueError(f"{path}: no cache file of Kernel Tuner: `cache` or `tune_params_keys` is missing")
    if cache.get("objective") not in (None, "time", ["time"]):
        raise ValueError(f"{path}: recorded for `{cache['objective']}`; only times can be compared here")
    values = {name: _values(cache, name, entries.values()) for name in names}
    ranks = {name: {_key(value): rank for rank, value in enumerate(of)} for name, of in values.items()}
    times = {tuple(ranks[name][_key(entry[name])] for name in names): _time(entry) for entry in entries.values()}
    if not any(time is not None for time in times.values()):
        raise ValueError(f"{path}: none of its {len(times)} settings has a time")
    return Space(name=path.name.removesuffix(".gz").removesuffix(".json"), values=values, times=times)


def parse_cache(text: str) -> dict[str, Any]:
    """JSON that may lack its last braces, and may end within an entry, as a run that was cut off leaves it."""
    whole = text.strip()
    for ending in ("", "}", "}}"):
        try:
            found: dict[str, Any] = json.loads(whole.rstrip(",") + ending)
            return found
        except ValueError:
            continue
    head, mark, tail = whole.partition('"cache"')
    start = tail.find("{")
    if not mark or start < 0:
        raise ValueError("no cache file: it has no `cache`")
    return {**json.loads(head.rstrip().rstrip(",") + "}"), "cache": dict(_entries(tail[start + 1 :]))}


def _entries(text: str) -> list[tuple[str, Any]]:
    """The entries that are whole."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while True:
        at += len(text[at:]) - len(text[at:].lstrip(" \r\n\t,"))
        try:
            key, at = decoder.raw_decode(text, at)
            at += len(text[at:]) - len(text[at:].lstrip(" \r\n\t:"))
            entry, at = decoder.raw_decode(text, at)
        except ValueError:
            return found
        found.append((key, entry))


def _values(cache: dict[str, Any], name: str, entries: Any) -> list[Any]:
    listed = cache.get("tune_params", {}).get(name) or [entry[name] for entry in entries]
    distinct = list({_key(value): value for value in listed}.values())
    numbers = all(isinstance(value, int | float) for value in distinct)
    return sorted(distinct) if numbers else distinct


def _key(value: Any) -> str:
    return json.dumps(value)


def _time(entry: dict[str, Any]) -> float | None:
    time = entry.get("time")
    good = isinstance(time, int | float) and not isinstance(time, bool) and 0 < time < LARGEST_TIME
    return float(time) if good and "__error__" not in entry else None


def dump_cache(space: Space, path: Path) -> None:
    """A closed cache file."""
    names = list(space.values)
    entries = {}
    for point, time in space.times.items():
        setting = {name: space.values[name][rank] for name, rank in zip(names, point, strict=True)}
        key = ",".join(str(value) for value in setting.values())
        entries[key] = {**setting, "time": time if time is not None else "RuntimeFailedConfig"}
        if time is None:
            entries[key]["__error__"] = "RuntimeFailedConfig"
    head = {"device_name": "model", "kernel_name": space.name, "problem_size": [4096], "objective": "time"}
    cache = {**head, "tune_params_keys": names, "tune_params": space.values, "cache": entries}
    path.write_text(json.dumps(cache), encoding="utf-8")


# --------------------------------------------------------------------------- synthetic spaces

SHAPES: tuple[tuple[str, Sequence[int]], ...] = (
    ("BLOCK_X", (16, 32, 48, 64, 96, 128, 192, 256)),
    ("BLOCK_Y", (1, 2, 4, 8, 16)),
    ("TILE_X", (1, 2, 3, 4, 6, 8)),
    ("TILE_Y", (1, 2, 3, 4, 6, 8)),
    ("UNROLL", (1, 2, 4, 8)),
    ("VECTOR", (1, 2, 4)),
    ("STAGES", (0, 1, 2)),
    ("PADDING", (0, 1)),
)


def synthetic(seed: int, tunables: int = 7) -> Space:
    """Some thousand settings: each tunable has a sweet spot, some pairs interact, registers and threads run out."""
    dice = random.Random(f"space {seed}")
    chosen = [SHAPES[0], SHAPES[1], *sorted(dice.sample(SHAPES[2:], tunables - 2), key=SHAPES.index)]
    names = [name for name, _ in chosen]
    sweet = {name: dice.uniform(0, len(of) - 1) for name, of in chosen}
    weight = {name: dice.choice((0.0, 0.05, 0.15, 0.3)) for name in names}
    pairs = {pair: dice.gauss(0, 0.12) for pair in dice.sample(list(itertools.combinations(names, 2)), len(names))}
    threads_most, registers_most = dice.choice((512, 1024)), dice.choice((32, 64, 128))
    times: dict[Point, float | None] = {}
    for point in itertools.product(*(range(len(of)) for _, of in chosen)):
        value = {name: of[rank] for (name, of), rank in zip(chosen, point, strict=True)}
        rank_of = dict(zip(names, point, strict=True))
        threads = value["BLOCK_X"] * value["BLOCK_Y"]
        if threads > threads_most or threads < 32:
            continue
        log_time = sum(weight[n] * abs(rank_of[n] - sweet[n]) ** 1.5 for n in names)
        log_time += sum(by * math.sin(rank_of[a] + 2 * rank_of[b]) for (a, b), by in pairs.items())
        registers = value.get("TILE_X", 1) * value.get("TILE_Y", 1) * (1 + 0.25 * value.get("UNROLL", 1))
        log_time += 0.8 if registers > registers_most else 0.0  # spills: a cliff, not a slope
        log_time += 0.25 if threads % 64 else 0.0
        failed = registers > 3 * registers_most or dice.random() < 0.02
        times[point] = None if failed else round(0.5 * math.exp(log_time + dice.gauss(0, 0.01)), 6)
    return Space(name=f"model-{seed}", values={name: list(of) for name, of in chosen}, times=times)
