"""The search bench: cache files in every state, synthetic spaces, and a run that says what it compared with."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
CACHE: dict[str, Any] = {
    "device_name": "Some GPU",
    "kernel_name": "k",
    "problem_size": [4096],
    "tune_params_keys": ["block", "method", "fixed"],
    "tune_params": {"block": [64, 8, 128], "method": ["a", "b"], "fixed": [1]},
    "objective": "time",
    "cache": {
        "64,a,1": {"block": 64, "method": "a", "fixed": 1, "time": 2.5, "times": [2.5, 2.5]},
        "8,b,1": {"block": 8, "method": "b", "fixed": 1, "time": "RuntimeFailedConfig"},
        "128,b,1": {"block": 128, "method": "b", "fixed": 1, "time": 1.25},
        "128,a,1": {"block": 128, "method": "a", "fixed": 1, "time": 1e20},
    },
}
TIMES = {(1, 0, 0): 2.5, (0, 1, 0): None, (2, 1, 0): 1.25, (2, 0, 0): None}


@pytest.fixture
def spaces() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        import spaces

        yield spaces
    finally:
        sys.path.remove(str(ROOT / "bench"))


def test_a_closed_cache_is_read(spaces: Any, tmp_path: Path) -> None:
    (tmp_path / "k.json").write_text(json.dumps(CACHE))
    found = spaces.read_cache(tmp_path / "k.json")
    assert ("k", TIMES, 1.25) == (found.name, found.times, found.best)
    assert {"block": [8, 64, 128], "method": ["a", "b"], "fixed": [1]} == found.values
    (tmp_path / "k.json.gz").write_bytes(gzip.compress(json.dumps(CACHE).encode()))
    assert found == spaces.read_cache(tmp_path / "k.json.gz")


@pytest.mark.parametrize("cut", [1, 2])
@pytest.mark.parametrize("ending", ["", ",", ",\n", "\n"])
def test_a_cache_that_was_not_closed_is_read(spaces: Any, tmp_path: Path, cut: int, ending: str) -> None:
    (tmp_path / "k.json").write_text(json.dumps(CACHE)[:-cut] + ending)
    assert TIMES == spaces.read_cache(tmp_path / "k.json").times


def test_wherever_a_cache_was_cut_off_its_whole_entries_are_read(spaces: Any) -> None:
    text = json.dumps(CACHE)
    first = text.index('"time": 2.5')
    for end in range(first, len(text)):
        found = spaces.parse_cache(text[:end])["cache"]
        assert all(found[key] == CACHE["cache"][key] for key in found)
        assert end < text.index('"8,b,1"') or "64,a,1" in found


def test_a_failure_may_be_marked_beside_its_time(spaces: Any, tmp_path: Path) -> None:
    entry = {**CACHE["cache"]["64,a,1"], "__error__": "InvalidConfig"}
    (tmp_path / "k.json").write_text(json.dumps({**CACHE, "cache": {**CACHE["cache"], "64,a,1": entry}}))
    assert spaces.read_cache(tmp_path / "k.json").times[1, 0, 0] is None


def test_values_that_are_not_listed_are_gathered(spaces: Any, tmp_path: Path) -> None:
    plain = {name: value for name, value in CACHE.items() if name not in ("tune_params", "objective")}
    (tmp_path / "k.json").write_text(json.dumps(plain))
    assert TIMES == spaces.read_cache(tmp_path / "k.json").times


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no cache file"),
        ("{}", "no cache file"),
        ('{"tune_params_keys": ["a"]}', "no cache file"),
        (json.dumps({**CACHE, "objective": "GFLOP/s"}), "recorded for `GFLOP/s`"),
        (json.dumps({**CACHE, "cache": {"8,b,1": CACHE["cache"]["8,b,1"]}}), "none of its 1 settings has a time"),
    ],
)
def test_what_is_no_cache_is_told(spaces: Any, tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "k.json").write_text(text)
    with pytest.raises(ValueError, match=told):
        spaces.read_cache(tmp_path / "k.json")


def test_synthetic_spaces_are_the_same_everywhere_and_survive_a_file(spaces: Any, tmp_path: Path) -> None:
    made = spaces.synthetic(5, tunables=4)
    assert made == spaces.synthetic(5, tunables=4)
    assert made.times != spaces.synthetic(6, tunables=4).times
    times = [time for time in made.times.values() if time is not None]
    assert 0 < sum(time is None for time in made.times.values()) < len(made.times) / 2
    assert max(times) > 3 * made.best
    spaces.dump_cache(made, tmp_path / f"{made.name}.json")
    assert made == spaces.read_cache(tmp_path / f"{made.name}.json")


def run_bench(*words: str, python: str | None = None) -> tuple[int, str, str]:
    command = [python or sys.executable, str(ROOT / "bench" / "search.py"), *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=ROOT)
    return ended.returncode, ended.stdout, ended.stderr


def test_a_quick_run_says_what_it_compared_with(tmp_path: Path) -> None:
    status, out, talk = run_bench("--quick", "--json")
    assert 0 == status, talk
    report = json.loads(out)
    assert "random search only: kernel_tuner is not installed" == report["compared_with"]
    (found,) = report["budgets"]
    assert {"kerneltui", "random"} == set(found["means"])
    assert found["no_worse"]
    assert found["ours"] > found["means"]["random"]
    status, out, _ = run_bench("--quick", "--strategies", "random_sample")
    assert "compared with: random search only" in out


def test_a_recorded_space_is_read_from_its_path(tmp_path: Path) -> None:
    (tmp_path / "k.json").write_text(json.dumps(CACHE)[:-2])
    status, out, talk = run_bench("--quick", "--json", "--cache", str(tmp_path / "k.json"))
    assert 0 == status, talk
    assert {"k": {"settings": 4, "failing": 2}} == json.loads(out)["spaces"]
    assert 1.0 == json.loads(out)["budgets"][0]["ours"]  # everything was tried
    status, _, talk = run_bench("--cache", str(tmp_path / "none.json"))
    assert (1, True) == (status, "search.py: " in talk)
