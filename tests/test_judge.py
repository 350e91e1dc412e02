"""The judge's own parts: comparing, patterns, tolerance, lint of references, memory, claims, words of death."""

from __future__ import annotations

import itertools
import math
import os
import random
import subprocess
import sys
import time

import pytest
import torch

from kerneltui.errors import ProblemError
from kerneltui.judge import hard_inputs, memory
from kerneltui.judge.arena import HostArena, Slot, fill_poison
from kerneltui.judge.claims import (
    Slice,
    claim_doubt,
    delays_s,
    floor_doubt,
    is_taken,
    short_doubt,
    taken_s,
    together,
)
from kerneltui.judge.compare import Expected, Finding, compare, describe_pattern
from kerneltui.judge.controls import control
from kerneltui.judge.deaths import death_of
from kerneltui.judge.faults import fault_words
from kerneltui.judge.lint import Lint, check_reference
from kerneltui.judge.pairs import launches_for, visiting_order
from kerneltui.judge.precision import APART, Classes, likeness, relative_error, rounded
from kerneltui.judge.reference import Reference, Tensor, randomise
from kerneltui.judge.runners import RunnerEnded
from kerneltui.judge.sanitizer import read_summary
from kerneltui.judge.tolerance import PROFILES
from kerneltui.records import CheckResult, Outcome, Stage

CPU = torch.device("cpu")


def finding(
    found: torch.Tensor, eager: torch.Tensor, *, profile: str = "kernelbench", allow_nan: bool = False, poison: int = 1
) -> Finding:
    expected = Expected(name="out", eager=eager)
    return compare(found, expected, PROFILES[profile], poison=poison, allow_nan=allow_nan, input_set="random 1")


def lint(body: str, *, inputs: str = "[torch.randn(64, 256)]", allow_nan: bool = False) -> Lint:
    source = (
        "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n"
        f"{body}\n\n\ndef get_inputs():\n    return {inputs}\n\n\ndef get_init_inputs():\n    return []\n"
    )
    return check_reference(Reference(source, "reference.py", CPU), PROFILES["kernelbench"], allow_nan=allow_nan)


def refusal(body: str, *, inputs: str = "[torch.randn(64, 256)]") -> str:
    with pytest.raises(ProblemError) as caught:
        lint(body, inputs=inputs)
    return str(caught.value)


# --------------------------------------------------------------------------- comparing


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_zeros_never_pass_for_small_outputs(profile: str) -> None:
    eager = torch.softmax(torch.randn(16, 65536), dim=-1)
    found = finding(torch.zeros_like(eager), eager, profile=profile)
    assert found.report is not None
    assert found.report.wrong > 0.9 * eager.numel()
    assert finding(eager.clone(), eager, profile=profile).report is None


def test_nan_passes_only_where_a_person_allowed_it() -> None:
    eager = torch.randn(8, 8)
    eager[0] = math.nan
    refused = finding(eager.clone(), eager)
    assert refused.report is not None and 8 == refused.nan_refused
    assert "row 0 only" == refused.report.pattern
    assert finding(eager.clone(), eager, allow_nan=True).report is None


def test_where_nan_is_allowed_the_other_rows_still_decide() -> None:
    eager = torch.randn(8, 8)
    eager[0] = math.nan
    found = finding(torch.full_like(eager, math.nan), eager, allow_nan=True)
    assert found.report is not None
    assert (56, "last 7 rows") == (found.report.wrong, found.report.pattern)


def test_poison_is_no_nan_that_may_pass() -> None:
    eager = torch.full((4, 4), math.nan)
    out = torch.empty_like(eager)
    poison = fill_poison(out)
    found = finding(out, eager, allow_nan=True, poison=poison)
    assert found.report is not None and 16 == found.unwritten
    assert (("never written", 16),) == found.report.histogram


def test_inf_passes_only_where_the_reference_has_it() -> None:
    eager = torch.tensor([1.0, math.inf, -math.inf, 2.0])
    assert finding(eager.clone(), eager).report is None
    wrong = torch.tensor([math.inf, math.inf, math.inf, 2.0])
    report = finding(wrong, eager).report
    assert report is not None and 2 == report.wrong
    assert report.max_abs is None


def test_whole_numbers_are_exact() -> None:
    eager = torch.arange(100)
    assert finding(eager.clone(), eager).report is None
    off = eager.clone()
    off[-1] += 1
    report = finding(off, eager).report
    assert report is not None
    assert (1, (99,), "99", "100") == (report.wrong, report.worst, report.expected, report.found)


def test_eager_s_own_error_widens_the_bound_on_hard_inputs_only() -> None:
    truth = torch.full((64,), 1000.0, dtype=torch.float64)
    eager = (truth + torch.linspace(-1, 1, 64)).float()
    found = (truth + 2.5).float()
    kind = {"name": "out", "eager": eager, "truth": lambda: truth}
    profile = PROFILES["kernelbench"]
    plain = compare(found, Expected(**kind), profile, poison=1, allow_nan=False, input_set="")
    loose = compare(found, Expected(**kind, loose=True), profile, poison=1, allow_nan=False, input_set="")
    assert (64, None) == (plain.report.wrong if plain.report else 0, loose.report)


def test_inputs_that_we_made_large_allow_errors_as_large_as_their_outputs() -> None:
    truth = torch.randn(512, dtype=torch.float64) * 2000
    truth[:8] = 0.0  # sums that cancel: what is far from them is near for their neighbours
    eager = truth.float()
    kind = {"name": "out", "eager": eager, "truth": lambda: truth}
    honest, wrong = eager + 3e-3, eager + 50.0
    profile = PROFILES["kernelbench"]

    def refused(found: torch.Tensor, loose: bool) -> bool:
        expected = Expected(**kind, loose=loose)
        return compare(found, expected, profile, poison=1, allow_nan=False, input_set="").report is not None

    assert [True, False, True] == [refused(honest, False), refused(honest, True), refused(wrong, True)]


def test_strict_asks_for_twice_eager_s_error() -> None:
    truth = torch.randn(512, dtype=torch.float64)
    eager = truth.float()
    expected = Expected(name="out", eager=eager, truth=lambda: truth)
    near = compare(eager.clone(), expected, PROFILES["strict"], poison=1, allow_nan=False, input_set="")
    far = compare(eager * (1 + 1e-5), expected, PROFILES["strict"], poison=1, allow_nan=False, input_set="")
    assert near.report is None
    assert far.report is not None


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ((slice(None), slice(5, None, 33)), "every 33rd column"),
        ((slice(None), slice(64, None)), "last tile of 64 columns"),
        ((slice(0, 1), slice(None)), "row 0 only"),
        ((slice(None), slice(7, 8)), "column 7 only"),
        ((slice(40, None), slice(None)), "last tile of 8 rows"),
        ((slice(None), slice(None)), "everywhere"),
        ((slice(47, 48), slice(127, 128)), "row 47 only"),
    ],
)
def test_patterns_have_words(places: tuple[slice, slice], words: str) -> None:
    mask = torch.zeros(48, 128, dtype=torch.bool)
    mask[places] = True
    assert words == describe_pattern(mask)


def test_one_batch_has_its_word_and_noise_has_none() -> None:
    mask = torch.zeros(4, 8, 8, dtype=torch.bool)
    mask[2, 3:5] = True
    assert "batch 2 only" == describe_pattern(mask)
    scattered = torch.zeros(10, 10, dtype=torch.bool)
    scattered[[1, 4, 4, 8], [2, 3, 9, 5]] = True
    assert "" == describe_pattern(scattered)


# --------------------------------------------------------------------------- buffers


def test_poison_differs_each_time_and_is_nan_for_every_float() -> None:
    for kind in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        values = torch.zeros(8, dtype=kind)
        first = fill_poison(values)
        assert bool(torch.isnan(values).all())
        assert any(first != fill_poison(values) for _ in range(8))


def test_tensors_do_not_overlap_and_are_aligned() -> None:
    tensors = [Tensor(name=name, dtype="float16", shape=(3, 5)) for name in "abc"]
    arena = HostArena(1 << 16, 0)
    slot = Slot(arena, tensors, outputs=1, start=0)
    assert all(place.offset % 256 == 0 for place in slot.places)
    assert all(guard.numel() >= 4096 for guard in slot.guards)
    edges = sorted((place.offset, place.offset + place.size_bytes) for place in slot.places)
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(edges))
    arena.close()


# --------------------------------------------------------------------------- lint


def test_dropout_is_named() -> None:
    body = "    def __init__(self):\n        super().__init__()\n        self.drop = nn.Dropout(0.3)\n\n"
    words = refusal(body + "    def forward(self, x):\n        return self.drop(x)")
    assert "does not agree with itself" in words
    assert "self.drop (Dropout)" in words


def test_memory_that_nobody_wrote_is_named() -> None:
    words = refusal(
        "    def forward(self, x):\n        out = torch.empty_like(x)\n        out[::2] = x[::2]\n        return out"
    )
    assert "does not agree with itself" in words and "every 2nd row" in words
    assert "torch.empty" in words


def test_random_outputs_are_refused() -> None:
    assert "agree with itself" in refusal("    def forward(self, x):\n        return x + torch.rand_like(x)")


def test_constant_outputs_are_refused() -> None:
    words = refusal("    def forward(self, x):\n        return torch.softmax(x, dim=-1).sum(-1)")
    assert "writes one constant would pass" in words


def test_outputs_that_ignore_every_input_are_refused() -> None:
    words = refusal("    def forward(self, x):\n        return x * 0 + torch.arange(256.0)")
    assert "a stored answer would pass" in words


def test_in_place_references_are_refused_by_name() -> None:
    words = refusal("    def forward(self, x):\n        return x.add_(1)")
    assert "changes its input `x` in place" in words


def test_outputs_must_be_tensors() -> None:
    words = refusal('    def forward(self, x):\n        return {"y": x}')
    assert "output 0 of forward is a dict" in words


def test_shapes_that_depend_on_values_are_refused() -> None:
    words = refusal("    def forward(self, x):\n        return x[x > 0]")
    assert "the shape of `out` depends on the values of the inputs" in words and "a fixed shape" in words


def test_shapes_that_two_draws_happen_to_share_are_refused_all_the_same() -> None:
    """As many elements of x are above zero in each draw: half of them, wherever they are."""
    halves = "[torch.cat([torch.rand(512), -torch.rand(512)])[torch.randperm(1024)]]"
    words = refusal("    def forward(self, x):\n        return x[x > 0]", inputs=halves)
    assert "(512,), then " in words and "depends on the values of the inputs" in words


def test_outputs_without_elements_are_refused() -> None:
    words = refusal("    def forward(self, x):\n        return x * 2", inputs="[torch.randn(0, 8)]")
    assert "the outputs have no elements" in words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("[torch.ones(4), torch.ones(4)]", "a list that holds a Tensor"),
        ("(1, [torch.ones(4)])", "a tuple that holds a list that holds a Tensor"),
        ("{'a': 1}", "a dict"),
        ("torch.float32", "a dtype"),
    ],
)
def test_arguments_that_no_candidate_can_be_given_are_named(value: str, words: str) -> None:
    body = "    def forward(self, x, more):\n        return x * 2"
    assert f"argument `more` of forward is {words}" in refusal(body, inputs=f"[torch.randn(64, 64), {value}]")


def test_an_input_that_lay_otherwise_is_noted() -> None:
    found = lint("    def forward(self, x):\n        return x * 2", inputs="[torch.randn(64, 32).t()]")
    assert "not contiguous" in next(check.detail for check in found.checks if check.name == "contiguous")
    assert found.signature.inputs[0].shape == (32, 64)


def test_a_reference_that_counts_its_calls_is_no_yardstick() -> None:
    body = "    n = 0\n\n    def forward(self, x):\n        self.n += 1\n        return x * self.n"
    assert "counts its calls" in refusal(body)


def test_an_exception_names_its_line() -> None:
    words = refusal("    def forward(self, x):\n        return x.view(7, 7)")
    assert words.startswith("reference.py:7: forward raised RuntimeError")


def test_inputs_must_be_a_list() -> None:
    words = refusal("    def forward(self, x):\n        return x", inputs="torch.randn(3)")
    assert "get_inputs() returned a Tensor" in words


def test_nan_rows_are_reported_with_their_place() -> None:
    body = "    def forward(self, x):\n        y = x.clone()\n        y[0] = float('nan')\n        return y"
    notes = [check.detail for check in lint(body).checks if check.name == "NaN in the reference"]
    assert ["256 of 16,384 elements of `out` are NaN (row 0 only)"] == [note.split(":")[0] for note in notes]


def test_small_outputs_are_announced() -> None:
    found = lint("    def forward(self, x):\n        return torch.softmax(x, dim=-1)", inputs="[torch.randn(8, 65536)]")
    (note,) = [check.detail for check in found.checks if check.name == "tolerance"]
    assert "outputs of `out` are about 1.5e-05; this tolerance (kernelbench, 0.0001) would accept zeros" in note
    assert "scale-relative bound" in note


def test_an_ignored_input_is_noted() -> None:
    found = lint(
        "    def forward(self, x, y):\n        return x * 2", inputs="[torch.randn(64, 64), torch.randn(64, 64)]"
    )
    assert ["the outputs do not depend on `y`"] == [c.detail for c in found.checks if c.name == "ignored input"]


def test_the_signature_has_scalars_and_state_in_order() -> None:
    source = (
        "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n    def __init__(self, width, kernel):\n"
        "        super().__init__()\n        self.norm = nn.BatchNorm1d(width)\n        self.lin = nn.Linear(width, 4)\n\n"
        "    def forward(self, x, scale):\n        return self.lin(self.norm(x)) * scale\n\n\n"
        "def get_inputs():\n    return [torch.randn(16, 8), 2.5]\n\n\ndef get_init_inputs():\n    return [8, (3, 3)]\n"
    )
    signature = check_reference(Reference(source, "r.py", CPU), PROFILES["kernelbench"], allow_nan=False).signature
    words = signature.words()
    assert [("scale", 2.5), ("width", 8), ("kernel", [3, 3])] == [(s["name"], s["value"]) for s in words["scalars"]]
    assert ["norm.weight", "norm.bias", "lin.weight", "lin.bias"] == [p["name"] for p in words["parameters"]]
    assert ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"] == [
        b["name"] for b in words["buffers"]
    ]


def test_no_weight_stays_one_and_no_bias_zero() -> None:
    norm = torch.nn.BatchNorm1d(32)
    randomise(norm, torch.Generator().manual_seed(5))
    assert not bool((norm.weight == 1).any())
    assert not bool((norm.bias == 0).any())
    assert bool((norm.running_var > 0).all()) and not bool((norm.running_var == 1).all())


# --------------------------------------------------------------------------- memory


BIG = "import torch\nimport torch.nn as nn\n\nSIDE = 46341\nHALF = SIDE // 2\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n\n\ndef get_inputs():\n    return [torch.rand(SIDE, HALF)]\n"


def test_too_big_is_said_before_anything_is_allocated() -> None:
    with pytest.raises(ProblemError) as caught:
        memory.check_fits(BIG, "big.py", 8 << 30, "a small host")
    assert "judging needs about" in str(caught.value)
    assert "8.0 GiB are free on a small host: cannot be judged here; try SIDE=" in str(caught.value)
    tried = int(str(caught.value).rpartition("SIDE=")[2].rstrip("."))
    memory.check_fits(memory.with_constant(BIG, "SIDE", tried), "big.py", 8 << 30, "a small host")


# --------------------------------------------------------------------------- claims


@pytest.mark.parametrize("claim", [0.0, -1.0, math.nan, math.inf])
def test_impossible_claims_are_doubted(claim: float) -> None:
    assert "no clock can measure" in claim_doubt(Slice(claimed_s=claim, wall_s=0.01, launches=10)) or claim == math.inf


def test_more_than_passed_is_doubted_and_much_less_too() -> None:
    assert "only 10.000 ms passed" in claim_doubt(Slice(claimed_s=0.02, wall_s=0.01, launches=1))
    tiny = [Slice(claimed_s=1e-30, wall_s=0.01, launches=1)] * 8
    assert "claim less than passed" in short_doubt(tiny, 0.0005)
    honest = [Slice(claimed_s=0.0098, wall_s=0.01, launches=1)] * 8
    assert "" == short_doubt(honest, 0.0005)
    one_disturbed = [*honest, Slice(claimed_s=0.001, wall_s=0.05, launches=1)]
    assert "" == short_doubt(one_disturbed, 0.0005)
    one_cleared = [*tiny, honest[0]]
    assert "claim less than passed" in short_doubt(one_cleared, 0.0005)


def test_commands_that_wake_slowly_are_no_lie() -> None:
    # Four turns of a small ring, on a machine where each command costs 150 µs besides the launches.
    turn = Slice(claimed_s=0.000382, wall_s=0.000533, launches=4, waking_s=0.0004)
    assert "" == short_doubt([together([turn] * 4)] * 60, 0.0005)
    lie = Slice(claimed_s=0.0002, wall_s=0.000833, launches=4, waking_s=0.0004)
    assert "claim less than passed" in short_doubt([together([lie] * 4)] * 60, 0.0005)


def test_the_kernel_says_how_long_threads_waited_for_a_core() -> None:
    core = min(os.sched_getaffinity(0))
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        for loop in loops:
            os.sched_setaffinity(loop.pid, {core})
        before = [delays_s(loop.pid) for loop in loops]
        time.sleep(1.0)
        waits = [taken_s(then, delays_s(loop.pid)) for then, loop in zip(before, loops, strict=True)]
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert sum(waits) > 0.4, "one core for two"
    assert {} == delays_s(loops[0].pid)


def test_what_a_slice_lost_to_others_counts_by_its_slowest_thread() -> None:
    assert 0.25 == pytest.approx(taken_s({1: 1.0, 2: 5.0}, {1: 1.25, 2: 5.1}))
    assert 0.1 == pytest.approx(taken_s({1: 1.0, 2: 5.0}, {1: 1.25, 2: 5.1}, ours=1, ours_s=0.2))
    assert 0.0 == taken_s({}, {})
    half = Slice(claimed_s=0.01, wall_s=0.01, launches=1, taken_s=0.0005)
    assert not is_taken(half) and not is_taken(together([half, half]))
    assert is_taken(Slice(claimed_s=0.01, wall_s=0.01, launches=1, taken_s=0.002))


def test_less_than_the_kernel_counted_is_doubted() -> None:
    lie = [Slice(claimed_s=0.0092, wall_s=0.0102, launches=1, floor_s=0.01)] * 3
    honest = [Slice(claimed_s=0.0099, wall_s=0.0102, launches=1, floor_s=0.01)] * 3
    assert "its clock is slow" in floor_doubt(lie)
    assert "its clock is slow" in floor_doubt([*lie, honest[0]])
    assert "" == floor_doubt(honest)
    assert "" == floor_doubt([*honest, lie[0]])


class Clockwork:
    """A side whose launches take what they are told to."""

    def __init__(self, each_s: float) -> None:
        self.each_s = each_s

    def slice(self, launches: int) -> Slice:
        return Slice(claimed_s=self.each_s * launches, wall_s=self.each_s * launches, launches=launches)


def test_controls_tell_a_clock_that_can_be_believed_from_one_that_cannot() -> None:
    right = control("cpu", lambda times: Clockwork(1e-3 * times), 1e-3)
    assert ("", "eager against itself 1.000, eager done twice 0.500") == (right.fault, right.words)
    stopped = control("cpu", lambda times: Clockwork(1e-3), 1e-3)
    assert "eager done twice is hardly slower" in stopped.fault
    drifting = itertools.count(1)
    fault = control("cpu", lambda times: Clockwork(1e-3 * 1.5 ** next(drifting)), 1e-3).fault
    assert "eager timed against itself is no tie" in fault


def test_tiny_kernels_are_batched_until_measurable() -> None:
    assert launches_for(1.0) >= 1000
    assert 1 == launches_for(1e6)
    assert launches_for(0.0) == launches_for(math.nan) == launches_for(1e-9)


def test_every_ring_entry_is_visited_before_any_again() -> None:
    order = visiting_order(5, 12, random.Random(3))
    assert [set(range(5)), set(range(5))] == [set(order[:5]), set(order[5:10])]
    assert 12 == len(order)


# --------------------------------------------------------------------------- words


def test_out_of_memory_is_not_a_crash() -> None:
    output = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
    outcome, words = death_of(RunnerEnded(-6), output, Stage.CHECK, 20)
    assert Outcome.OUT_OF_MEMORY == outcome
    assert "std::bad_alloc" in words


def test_refused_launches_have_sizes_in_their_words() -> None:
    launches = [{"kernel": "k", "block": 1024, "shared": 200 * 1024}]
    outcome, words = fault_words("cudaErrorInvalidValue", launches, [])
    assert Outcome.LAUNCH_ERROR == outcome
    assert "asked for 200 KiB dynamic shared memory without raising the limit" in words
    _, words = fault_words("cudaErrorLaunchOutOfResources", launches, [{"name": "k", "registers": 100}])
    assert "needs 102,400 registers a block, 65,536 exist" in words
    assert Outcome.OUT_OF_MEMORY == fault_words("cudaErrorMemoryAllocation", [], [])[0]
    assert "illegal address" in fault_words("CUDA_ERROR_ILLEGAL_ADDRESS", [], [])[1]


# --------------------------------------------------------------------------- precision and hard inputs


def test_rounding_keeps_so_many_bits() -> None:
    values = torch.tensor([1.0 + 2**-9, 1.0 + 2**-11, math.pi], dtype=torch.float64)
    expected = torch.tensor([1.0 + 2**-9, 1.0, 3.140625], dtype=torch.float64)
    assert bool((expected == rounded(values, 11)).all())


def test_operands_that_are_cut_off_are_not_taken_for_a_narrower_type() -> None:
    """cuDNN's TF32 convolutions: some round, some cut off, and which one is chosen differs between processes."""
    torch.manual_seed(1)
    module, x = torch.nn.Conv2d(3, 16, 11, stride=4, padding=2).double(), torch.rand(2, 3, 64, 64).double()

    def error(bits: int, *, cut: bool = False, weights: bool = True) -> float:
        def short(values: torch.Tensor) -> torch.Tensor:
            return rounded(values, bits, cut=cut)

        weight = short(module.weight) if weights else module.weight
        exact = torch.nn.functional.conv2d(x, module.weight, module.bias, stride=4, padding=2)
        found = torch.nn.functional.conv2d(short(x), weight, module.bias, stride=4, padding=2)
        return relative_error([found], [exact])

    with torch.no_grad():
        rounds, cuts, coarse = error(11), error(11, cut=True), error(8)
        exact_eager = Classes(eager=1e-7, errors={"tf32": rounds, "bf16": coarse}, cut=cuts)
        same_eager = Classes(eager=rounds, errors={"tf32": rounds, "bf16": coarse * 2}, cut=cuts)
        assert 2.5 * rounds < cuts < coarse
        assert ["tf32", "tf32", "bf16", "bf16"] == [
            exact_eager.label(found) for found in (rounds, cuts, coarse, error(8, weights=False))
        ]
        assert ["fp32", "fp32", "bf16"] == [same_eager.label(found) for found in (rounds, cuts, 2 * coarse)]


def test_where_eager_is_tf32_an_error_between_is_bf16_only_if_it_looks_like_it() -> None:
    """Two algorithms of cuDNN's for one convolution: errors of 2.4e-4 and 1.3e-3, where bfloat16's is 1.9e-3."""
    torch.manual_seed(2)
    module, x = torch.nn.Conv2d(3, 16, 11, stride=4, padding=2).double(), torch.rand(2, 3, 64, 64).double()

    def answer(bits: int = 53, weight_bits: int = 53) -> torch.Tensor:
        weight = rounded(module.weight, weight_bits)
        return torch.nn.functional.conv2d(rounded(x, bits), weight, module.bias, stride=4, padding=2)

    with torch.no_grad():
        exact, tf32, bf16 = answer(), answer(11, 11), answer(8, 8)
        rounds, coarse = relative_error([tf32], [exact]), relative_error([bf16], [exact])
        classes = Classes(eager=rounds, errors={"tf32": rounds, "bf16": 1.01 * APART * rounds}, cut=3 * rounds)
        typical = classes.errors["bf16"]
        amplified = exact + (tf32 - exact) * (0.7 * typical / rounds)
        offset = exact * (1 + 0.7 * typical)
        one_operand = exact + (answer(8) - exact) * (0.7 * typical / relative_error([answer(8)], [exact]))
        labels = []
        for found in (amplified, offset, one_operand, exact + (bf16 - exact) * (typical / coarse)):
            shares = {"bf16": likeness([found], [exact], [bf16])}
            labels.append(classes.label(relative_error([found], [exact]), shares.__getitem__))
        assert ["fp32", "fp32", "bf16", "bf16"] == labels
        assert "bf16" == classes.label(typical, lambda name: 0.0), "as large as the class's own: no doubt left"
        exact_eager = Classes(eager=1e-7, errors=classes.errors, cut=classes.cut)
        assert "bf16" == exact_eager.label(0.7 * typical, lambda name: 0.0), "exact eager has no such algorithms"
        assert 0.0 == likeness([exact], [exact], None)


def test_a_class_is_named_only_when_it_can_be_told_apart() -> None:
    classes = Classes(eager=1e-7, errors={"tf32": 3e-4, "bf16": 2e-3})
    assert ["fp32", "fp32", "tf32", "bf16"] == [classes.label(error) for error in (2e-7, 5e-5, 3e-4, 2e-3)]
    blurred = Classes(eager=1e-4, errors={"tf32": 3e-4, "bf16": 5e-4})
    assert "fp32" == blurred.label(5e-4)


def test_masks_and_indices_are_not_samples() -> None:
    mask, index = torch.ones(64, 64), torch.arange(64)
    sample, positive = torch.randn(64, 64), torch.rand(64, 64)
    assert [False, False, True, True] == [hard_inputs.is_sample(value) for value in (mask, index, sample, positive)]
    assert "large mean" in hard_inputs.usable_recipes([sample, mask])
    assert "large mean" not in hard_inputs.usable_recipes([positive])
    changed = hard_inputs.apply("constant", [sample, mask])
    assert changed is not None
    assert changed[1] is mask and float(changed[0].std()) == 0


def test_sanitizer_summaries_are_read() -> None:
    clean = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
    assert (CheckResult.PASS, "") == read_summary(clean, "")
    bad = "========= Invalid __global__ read of size 4 bytes\n=========     at k\n========= ERROR SUMMARY: 32 errors\n"
    assert (CheckResult.FAIL, "32 errors, first: Invalid __global__ read of size 4 bytes") == read_summary(bad, "")
    assert CheckResult.SKIPPED == read_summary("", "RunnerSilent")[0]
