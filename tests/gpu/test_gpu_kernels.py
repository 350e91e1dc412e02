"""Every CUDA kernel that ships, at full size on the GPU here, against float64."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kerneltui.evaluator.devices import list_devices
from kerneltui.problems import list_problems

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench" / "kernels.py"

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc here"),
    pytest.mark.skipif(not any(device.kind == "cuda" for device in list_devices()), reason="no NVIDIA GPU here"),
]


def faults_of(record: dict[str, Any]) -> list[str]:
    """What is wrong with one kernel, in words."""
    if record.get("lost") or record.get("failed"):
        return [str(record.get("lost") or record["failed"])[-300:]]
    found = []
    for inputs, errors in record.get("errors", {}).items():
        if errors["wrong64"] or errors["off"]:
            found.append(f"{inputs}: {errors['wrong64']} wrong against float64, {errors['off']} off eager")
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(problem.name for problem in list_problems()))
def test_every_kernel_agrees_with_float64(name: str, tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, str(BENCH), "--starters", "--json", str(figures), name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    kernels = [record for record in json.loads(figures.read_text()) if not record["label"].startswith("eager")]
    assert kernels
    faults = {record["label"]: faults_of(record) for record in kernels}
    assert {label: found for label, found in faults.items() if found} == {}
