"""Kernel Tuner's strategies on recorded spaces, in its simulation mode; run by search.py with a Python that has it.

    PYTHON kernel_tuner_runs.py FOLDER BUDGET,BUDGET REPEATS STRATEGY,STRATEGY

FOLDER holds cache files as *.json. One JSON line per run: {"space", "strategy", "budget", "repeat", "best"}.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import kernel_tuner
import numpy


def run(cache: dict[str, Any], path: Path, strategy: str, budget: int, repeat: int) -> float | None:
    """The best time that one run finds within so many evaluations; settings outside of the record do not exist."""
    random.seed(repeat)
    numpy.random.seed(repeat)
    names = list(cache["tune_params"])
    size = cache["problem_size"]

    def is_recorded(p: dict[str, Any]) -> bool:
        return ",".join(str(p[name]) for name in names) in cache["cache"]

    results, _ = kernel_tuner.tune_kernel(
        cache["kernel_name"],
        "",
        tuple(size) if isinstance(size, list) else (size,),
        [],
        cache["tune_params"],
        restrictions=is_recorded,
        strategy=strategy,
        strategy_options={"max_fevals": budget},
        cache=str(path),
        simulation_mode=True,
        quiet=True,
    )
    times = [result["time"] for result in results if "__error__" not in result and is_number(result.get("time"))]
    return min(times, default=None)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < 1e19


def main() -> None:
    folder, budgets, repeats, strategies = sys.argv[1:5]
    warnings.simplefilter("ignore")
    for path in sorted(Path(folder).glob("*.json")):
        cache = json.loads(path.read_text())
        for strategy in strategies.split(","):
            for budget in map(int, budgets.split(",")):
                for repeat in range(int(repeats)):
                    with contextlib.redirect_stdout(io.StringIO()):
                        best = run(cache, path, strategy, budget, repeat)
                    row = {"space": path.stem, "strategy": strategy, "budget": budget, "repeat": repeat, "best": best}
                    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
