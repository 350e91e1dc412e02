"""Honest CUDA kernels, plain and unusual, are not taken for cheats: starters, playbook variants, and tests/gpu/honest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kerneltui.authors.playbook import read_playbook
from kerneltui.errors import KernelTuiError
from kerneltui.evaluator.devices import find_device
from kerneltui.problems import list_problems, starters
from kerneltui.records import Badge, Candidate, Language, Outcome
from tests.exploit_cases import Court, read_case

HONEST = Path(__file__).parent / "honest"
LEAST = 60
pytestmark = pytest.mark.gpu


def candidates() -> Iterator[tuple[str, str, Candidate]]:
    """(what, problem, candidate); those of one problem together."""
    for problem in list_problems():
        for name, source in starters(problem, Language.CUDA):
            yield f"{problem.name}: {name}", problem.name, Candidate(source=source, language=Language.CUDA)
        for card in read_playbook(problem):
            for variant in card.written_in(Language.CUDA):
                made = Candidate(source=variant.source, language=Language.CUDA, defines=variant.defines)
                yield f"{problem.name}: {variant.name}", problem.name, made
    for case in sorted(map(read_case, HONEST.iterdir()), key=lambda case: (case.problem, case.name)):
        yield case.name, case.problem, case.candidate


FOUND = list(candidates())


@pytest.fixture(scope="module")
def court(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Court]:
    try:
        device = find_device("cuda")
    except KernelTuiError as error:
        pytest.skip(str(error))
    found = Court(device, tmp_path_factory.mktemp("builds"), [found[1:] for found in FOUND])
    yield found
    found.close()


@pytest.mark.parametrize(("problem", "candidate"), [found[1:] for found in FOUND], ids=[found[0] for found in FOUND])
def test_honest_kernels_are_believed(court: Court, problem: str, candidate: Candidate) -> None:
    verdict = court.judge(candidate, problem)
    assert (str(verdict.outcome), verdict.message) == ("correct", "")
    assert Outcome.CORRECT is verdict.outcome
    assert verdict.measurement is not None
    assert verdict.measurement.badge is not Badge.SUSPECT


def test_there_are_enough_of_them() -> None:
    assert len(FOUND) >= LEAST
    assert len({candidate.digest for _, _, candidate in FOUND}) == len(FOUND)
