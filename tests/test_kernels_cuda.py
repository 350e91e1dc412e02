"""The CUDA kernels that ship, as far as no GPU is needed: starters, legal settings, ideas over several rounds."""

from __future__ import annotations

import pytest

from kerneltui.authors.playbook import CardVariant, read_playbook
from kerneltui.authors.sweep import declared, is_legal
from kerneltui.problems import list_problems, starters
from kerneltui.records import Language, Problem

PROBLEMS = {problem.name: problem for problem in list_problems()}


def is_declared(variant: CardVariant) -> bool:
    """Whether the kernel's own comments allow this setting."""
    tunables = declared(variant.source)
    allowed = dict(tunables.values)
    return is_legal(tunables, variant.defines) and all(int(v) in allowed.get(n, ()) for n, v in variant.defines)


def test_every_problem_has_a_starter_in_cuda() -> None:
    assert [name for name, problem in PROBLEMS.items() if not starters(problem, Language.CUDA)] == []


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_every_setting_is_one_that_its_kernel_declares(problem: Problem) -> None:
    variants = [variant for card in read_playbook(problem) for variant in card.written_in(Language.CUDA)]
    illegal = [(v.name, v.defines) for v in variants if not is_declared(v)]
    assert variants
    assert illegal == []


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_no_kernel_is_dealt_twice(problem: Problem) -> None:
    dealt = [(v.source, v.defines) for card in read_playbook(problem) for v in card.written_in(Language.CUDA)]
    assert len(set(dealt)) == len(dealt)


@pytest.mark.parametrize("name", ["softmax", "layernorm", "conv2d_relu_maxpool", "matmul_fp32"])
def test_four_ideas_to_begin_with_and_a_second_round(name: str) -> None:
    cards = [card for card in read_playbook(PROBLEMS[name]) if card.written_in(Language.CUDA)]
    keys = {card.key for card in cards}
    assert len([card for card in cards if not card.builds_on]) >= 4
    assert [card.key for card in cards if card.builds_on in keys] != []
