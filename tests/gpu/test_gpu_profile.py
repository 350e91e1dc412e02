"""Profiles and machine code on a real GPU."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kerneltui.errors import KernelTuiError, MachineError
from kerneltui.evaluator.counters import PERMISSION
from kerneltui.evaluator.devices import list_devices
from kerneltui.evaluator.disassembly import disassemble
from kerneltui.evaluator.profiling import find_ncu
from kerneltui.records import Candidate, Language, Outcome, Policy
from tests.gpu.test_gpu_judge import GOOD, REFERENCE
from tests.judging import Bench

pytestmark = pytest.mark.gpu
CANDIDATE = Candidate(source=GOOD, language=Language.CUDA)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    try:
        devices = [device for device in list_devices() if device.kind == "cuda"]
    except KernelTuiError as error:
        pytest.skip(str(error))
    if not devices:
        pytest.skip("no GPU here")
    made = Bench(tmp_path_factory.mktemp("gpu"), REFERENCE, name="fault", device=devices[0], deadline_s=10.0)
    yield made
    made.close()


@pytest.mark.skipif(find_ncu() is None, reason="no ncu here")
def test_ncu_counts_the_kernel_or_says_who_may(bench: Bench) -> None:
    try:
        found = bench.run(bench.evaluator.profile(CANDIDATE))
    except MachineError as error:
        assert PERMISSION in str(error), "the one reason that is nobody's fault here"
        return
    assert ["k"] == [kernel.name for kernel in found.kernels]
    counted = {figure.name: figure.value for figure in found.kernels[0].figures}
    assert {"duration", "DRAM throughput", "L2 throughput", "SM throughput", "achieved occupancy"} <= set(counted)
    assert 0 < counted["DRAM throughput"] <= 100
    assert 256 == counted["threads a block"]
    assert any(name.startswith("stalled: ") for name in counted)


@pytest.mark.skipif(find_ncu() is None, reason="no ncu here")
def test_a_profile_leaves_the_judge_as_it_was(bench: Bench) -> None:
    try:
        bench.run(bench.evaluator.profile(CANDIDATE))
    except MachineError:
        pass  # what it left is the question
    assert Outcome.CORRECT == bench.run(bench.evaluator.judge(CANDIDATE)).outcome


def test_sass_is_of_this_architecture(bench: Bench) -> None:
    contract, cache = bench.evaluator.contract_for(Language.CUDA), bench.folder / "cache"
    try:
        found = asyncio.run(disassemble(CANDIDATE, contract, bench.device, policy=Policy(), cache=cache))
    except MachineError as error:
        pytest.skip(str(error))
    assert (bench.device.architecture, ["k"]) == (found.architecture, [each.name for each in found.functions])
    assert {"LDG", "STG", "EXIT"} <= set(found.functions[0].opcodes)
