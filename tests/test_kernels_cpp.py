"""Every C++ kernel that ships, compiled against its contract and compared with float64 on small, awkward sizes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kerneltui.authors.playbook import read_playbook
from kerneltui.authors.sweep import declared, default_point, is_legal
from kerneltui.problems import list_problems, starters
from kerneltui.records import Language

WORKER = Path(__file__).parent / "cpp_kernel_worker.py"
CONV = {"BATCH": 2, "SIDE": 61, "OUT_CHANNELS": 21, "KERNEL": 5, "STRIDE": 2, "PADDING": 1}
# Sizes that divide by nothing, so that every remainder is walked; softmax also where rows are whole vectors.
SIZES: dict[str, list[dict[str, int]]] = {
    "softmax": [{"ROWS": 3, "WIDTH": 1003}, {"ROWS": 3, "WIDTH": 2048}],
    "layernorm": [{"BATCH": 3, "FEATURES": 5, "HEIGHT": 33, "WIDTH": 41}],
    "conv2d": [CONV],
    "conv2d_relu_maxpool": [CONV],
    "matmul_fp32": [{"M": 37, "K": 301, "N_COLS": 75}],
    "matmul_fp16": [{"M": 17, "K": 65, "N_COLS": 33}],
    "attention_fp16": [{"BATCH": 1, "HEADS": 2, "LENGTH": 33, "DEPTH": 16}],
}

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")


def kernels_of(folder: Path) -> list[list[Any]]:
    """Starter, playbook variants, and every other file with its defaults."""
    ideas = tomllib.loads((folder / "playbook.toml").read_text())["idea"] if (folder / "playbook.toml").exists() else []
    variants = [variant for idea in ideas for variant in idea.get("variant", []) if variant["language"] == "cpp"]
    found = [[path.name, {}] for path in sorted(folder.glob("starter*.cpp"))]
    found += [[f"cpp/{path.name}", {}] for path in sorted(folder.glob("cpp/*.cpp"))]
    for variant in variants:
        kernel = [variant["file"], variant.get("defines", {})]
        found += [kernel] if kernel not in found else []
    return found


def name_of(finding: dict[str, Any]) -> str:
    return f"{finding['problem']}/{finding['file']} {finding['defines'] or ''}".strip()


@pytest.mark.slow
def test_every_kernel_agrees_with_float64() -> None:
    cases, expected = [], []
    for problem in list_problems():
        kernels = kernels_of(Path(str(problem.folder)))
        for sizes in SIZES[problem.name]:
            cases.append({"problem": problem.name, "sizes": sizes, "kernels": kernels})
            expected += [
                name_of({"problem": problem.name, "file": file, "defines": defines}) for file, defines in kernels
            ]
    done = subprocess.run(
        [sys.executable, str(WORKER)],
        input="".join(json.dumps(case) + "\n" for case in cases),
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"},
    )
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [f"{name_of(finding)}: {finding['wrong']}" for finding in findings if finding["wrong"]]
    assert wrong == [], done.stderr
    assert [name_of(finding) for finding in findings] == expected, done.stderr[-2000:]


def test_every_problem_has_a_starter_in_cpp() -> None:
    assert [problem.name for problem in list_problems() if not starters(problem, Language.CPP)] == []


@pytest.mark.parametrize("name", ["softmax", "layernorm", "conv2d_relu_maxpool", "matmul_fp32"])
def test_playbooks_lead_through_three_rounds_of_cpp(name: str) -> None:
    (problem,) = [problem for problem in list_problems() if problem.name == name]
    ideas = tomllib.loads((Path(str(problem.folder)) / "playbook.toml").read_text())["idea"]
    by_key = {idea["key"]: idea for idea in ideas}
    assert len(by_key) == len(ideas)
    real = {idea["key"] for idea in ideas if any(v["language"] == "cpp" for v in idea.get("variant", []))}
    depth = {key: rounds_to(by_key, key) for key in real}
    assert len([key for key in real if depth[key] == 1]) >= 4
    assert max(depth.values()) >= 3


@pytest.mark.parametrize(
    ("name", "rounds"), [("softmax", 3), ("layernorm", 2), ("conv2d_relu_maxpool", 2), ("matmul_fp32", 2)]
)
def test_whatever_survives_has_a_card_to_go_on_with(name: str, rounds: int) -> None:
    (problem,) = [problem for problem in list_problems() if problem.name == name]
    cards = {card.key: card for card in read_playbook(problem) if card.written_in(Language.CPP)}
    grounds = {card.builds_on for card in cards.values()}
    by_key = {key: {"builds_on": card.builds_on} for key, card in cards.items()}
    assert [key for key in cards if rounds_to(by_key, key) < rounds and key not in grounds] == []


@pytest.mark.parametrize("name", ["softmax", "layernorm", "conv2d_relu_maxpool", "matmul_fp32"])
def test_no_kernel_is_dealt_twice_and_settings_are_declared(name: str) -> None:
    (problem,) = [problem for problem in list_problems() if problem.name == name]
    dealt = [variant for card in read_playbook(problem) for variant in card.written_in(Language.CPP)]
    points = [default_point(declared(v.source), v.source, v.defines) for v in dealt]
    assert len({(v.source, point) for v, point in zip(dealt, points, strict=True)}) == len(dealt)
    assert [v.name for v, p in zip(dealt, points, strict=True) if not is_legal(declared(v.source), p)] == []


def rounds_to(by_key: dict[str, Any], key: str) -> int:
    above = by_key[key]["builds_on"]
    return 1 if not above else 1 + rounds_to(by_key, above)
