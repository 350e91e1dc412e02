"""One candidate on the bench: load, check, time, decide.

Trial       the sequence; `run` gives the verdict
"""

from __future__ import annotations

import math
import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from kerneltui.errors import ProblemError
from kerneltui.judge import hard_inputs
from kerneltui.judge.bench import Bench, Set
from kerneltui.judge.compare import BITS, Expected, Finding, compare, root_mean_square
from kerneltui.judge.conversation import Conversation
from kerneltui.judge.fallen import Fallen
from kerneltui.judge.lanes import Lane
from kerneltui.judge.mismatch import equal_bits, mismatch_words
from kerneltui.judge.pairs import number
from kerneltui.judge.precision import MANTISSA_BITS, likeness, measure_classes, relative_error, true_answer
from kerneltui.judge.renewal import Renewal
from kerneltui.judge.request import Request, Rules
from kerneltui.judge.runners import RunnerFailure
from kerneltui.judge.sanitizer import sanitize
from kerneltui.judge.timing import measure
from kerneltui.records import Badge, CheckResult, Measurement, Outcome, Stage, Verdict

RANDOM_SETS = 3
VERIFIED_S = {"cpu": 0.5, "cuda": 0.3}  # for the outputs of the last slice


class Trial(Conversation):
    """The sequence for one compiled candidate."""

    def __init__(
        self, bench: Bench, request: Request, rules: Rules, lane: Lane, settle: Callable[[], None] = lambda: None
    ) -> None:
        """`settle` returns when nothing of ours disturbs a clock any more."""
        super().__init__(bench, request, lane)
        self.quiet = settle
        self.rules = rules
        self.ring: list[Set] = []
        self.workspace: int | None = None
        self.call_s = request.deadline_s  # the fastest plain call so far, as the runner claims
        self.precision = ""

    def run(self) -> Verdict:
        """The verdict; only a machine's fault raises."""
        start = time.monotonic()
        try:
            verdict = self.sequence()
        except Fallen as fallen:
            verdict = Verdict(outcome=fallen.outcome, stage=fallen.stage, message=fallen.message, errors=fallen.errors)
        finally:
            log = self.finish()
        return replace(
            verdict,
            log=log,
            checks=tuple(self.at.checks),
            tolerance=self.rules.tolerance.name,
            run_s=time.monotonic() - start,
        )

    def sequence(self) -> Verdict:
        self.runner = self.lane.start(self.bench, self.request)
        first = self.bench.fill(self.bench.slots[0], self.bench.main, "random 1")
        self.open()
        self.ring = [first, *self.fill_ring(1, min(RANDOM_SETS, len(self.bench.slots)))]
        self.at.stage = Stage.CHECK
        self.check_ring()
        self.check_again()
        self.check_probes()
        self.label_precision()
        self.at.stage = Stage.TIME
        self.ring += self.fill_ring(len(self.ring), len(self.bench.slots))
        measurement = self.measure()
        return self.conclude(measurement)

    # ------------------------------------------------------------------ checking

    def fill_ring(self, first: int, end: int) -> list[Set]:
        slots = self.bench.slots[first:end]
        return [
            self.bench.fill(slot, self.bench.main, f"random {first + index + 1}") for index, slot in enumerate(slots)
        ]

    def check_ring(self) -> None:
        """The first sets of the ring, one by one; nobody else's output may move."""
        self.workspace = self.workspace_for(self.bench.main)
        for index, filled in enumerate(self.ring):
            self.check_set(filled, self.workspace)
            self.check_bystanders(self.ring[index + 1 :])
        self.note("outputs", CheckResult.PASS, f"{len(self.ring)} random input sets")

    def check_set(
        self, filled: Set, workspace: int | None, *, loose: bool = False, expected: list[Expected] | None = None
    ) -> list[Expected]:
        """Call once on a set and compare everything."""
        expected = expected or self.bench.expect(filled, truth=self.rules.truth, loose=loose)
        before = self.bench.fingerprints.of(filled.slot)
        self.call(filled, workspace)
        self.check_guards([filled])
        changed = self.bench.fingerprints.changed(filled.slot, before)
        if changed:
            self.note("inputs unchanged", CheckResult.FAIL, f"`{changed}` was written to")
            raise Fallen(
                Outcome.MISMATCH,
                Stage.CHECK,
                f"it wrote to its input `{changed}`, which is const (input set: {filled.name})",
            )
        self.compare_set(filled, expected, workspace)
        return expected

    def call(self, filled: Set, workspace: int | None) -> None:
        self.bench.poison_workspace()
        self.lane.settle()
        answer = self.ask(
            "call", offsets=filled.slot.offsets, symbols=list(filled.workload.symbols), workspace=workspace
        )
        self.at.calls += 1
        claimed = number(answer.get("elapsed_ns")) / 1e9
        self.call_s = min(self.call_s, claimed) if claimed > 0 else self.call_s
        code = answer.get("code")
        found = self.lane.fault(answer, self.request)
        if found is None and code != 0:
            found = Outcome.LAUNCH_ERROR, f"{self.request.function} returned {code}, which means that it failed"
        if found is not None:
            self.lose()
            raise Fallen(found[0], Stage.LAUNCH, found[1])

    def check_guards(self, sets: Sequence[Set]) -> None:
        broken = self.bench.broken_guards([filled.slot for filled in sets])
        if broken:
            self.note("guards intact", CheckResult.FAIL, broken)
            raise Fallen(Outcome.MISMATCH, Stage.CHECK, f"it writes outside its buffers: {broken}")

    def compare_set(self, filled: Set, expected: Sequence[Expected], workspace: int | None) -> None:
        findings = self.findings(filled, expected)
        reports = [finding.report for finding in findings if finding.report is not None]
        if not reports:
            return
        message = mismatch_words(reports[0], findings)
        self.note("outputs", CheckResult.FAIL, message)
        raise Fallen(Outcome.MISMATCH, Stage.CHECK, message, reports)

    def findings(self, filled: Set, expected: Sequence[Expected]) -> list[Finding]:
        slot = filled.slot
        return [
            compare(
                output,
                wanted,
                self.rules.tolerance,
                poison=poison,
                allow_nan=self.rules.allow_nan,
                input_set=filled.name,
            )
            for output, wanted, poison in zip(slot.written, expected, slot.poisons, strict=True)
        ]

    def check_bystanders(self, others: Sequence[Set]) -> None:
        """An output that was not passed must keep its poison: one call may not do the work of several."""
        for filled in others:
            for output, poison in zip(filled.slot.written, filled.slot.poisons, strict=True):
                flat = output.reshape(-1).view(BITS[output.element_size()])
                if flat.numel() and not bool((flat[:: max(1, flat.numel() // 64)] == poison).all()):
                    raise Fallen(
                        Outcome.SUSPECT,
                        Stage.CHECK,
                        "a call wrote to an output that it was not given: work is shared between calls",
                    )

    def check_again(self) -> None:
        """The last inputs once more, under other poison: equal bits, or at least equal within the tolerance."""
        filled = self.ring[-1]
        before = [output.clone() for output in filled.slot.written]
        filled.slot.poison()
        self.call(filled, self.workspace)
        self.check_guards([filled])
        same = all(equal_bits(old, new) for old, new in zip(before, filled.slot.written, strict=True))
        if same:
            self.note("deterministic", CheckResult.PASS, "equal bits on equal inputs")
            return
        expected = self.bench.expect(filled, truth=self.rules.truth)
        findings = self.findings(filled, expected)
        reports = [finding.report for finding in findings if finding.report is not None]
        if reports:
            self.note("deterministic", CheckResult.FAIL, "a second run on equal inputs is wrong")
            raise Fallen(
                Outcome.MISMATCH,
                Stage.CHECK,
                "right on the first call, wrong on a second one with equal inputs: it keeps state, leaves outputs "
                f"unwritten, or has a race ({mismatch_words(reports[0], findings)})",
                reports,
            )
        self.note("deterministic", CheckResult.NOTE, "bits differ between runs, within the tolerance (atomics?)")

    def check_probes(self) -> None:
        """Other sizes, then inputs chosen to be hard."""
        # A module is made once, with the constructor arguments of the largest sizes.
        for workload in () if self.request.module else self.bench.workloads[:-1]:
            name = "sizes " + ", ".join(map(str, workload.symbols))
            self.check_set(self.bench.probe(workload, name), self.workspace_for(workload))
        if len(self.bench.workloads) > 1:
            self.note("sizes", CheckResult.PASS, f"{len(self.bench.workloads)} choices of the symbolic sizes")
        if not self.rules.hard:
            self.note("hard inputs", CheckResult.SKIPPED, "eager alone takes too long here")
            return
        tried = [name for name in self.recipes() if self.check_hard(name)]
        result = CheckResult.PASS if tried else CheckResult.SKIPPED
        self.note("hard inputs", result, ", ".join(tried) or "no input that may be changed")

    def recipes(self) -> list[str]:
        return hard_inputs.usable_recipes(self.ring[0].arguments)

    def check_hard(self, name: str) -> bool:
        """Whether the reference takes it and is finite there; an honest kernel is never asked more than eager can."""
        main = self.bench.main
        values = hard_inputs.apply(name, main.reference.make_inputs(secrets.randbits(63)))
        if values is None:
            return False
        filled = self.bench.probe(main, name, values)
        try:
            expected = self.bench.expect(filled, truth=self.rules.truth, loose=True)
        except ProblemError:  # a matrix that must have an inverse, a distance that must be positive
            return False
        if not all(math.isfinite(root_mean_square(out.eager)) for out in expected if out.eager.is_floating_point()):
            return False
        workspace = self.workspace_for(main) if len(self.bench.workloads) > 1 else self.workspace
        self.check_set(filled, workspace, loose=True, expected=expected)
        return True

    def label_precision(self) -> None:
        """The measured class; a lower one than eager's is refused where the session's policy says so."""
        if not self.rules.truth:
            return
        filled, bench = self.ring[-1], self.bench
        if bench.classes is None:
            bench.classes = measure_classes(filled)
        if bench.classes is None:
            self.precision = self.rules.baseline_precision.split(";")[0]
            return
        truth = true_answer(filled)
        assert truth is not None  # it was there when the classes were measured
        written = filled.slot.written
        error = relative_error(written, truth)
        self.precision = bench.classes.label(
            error, lambda name: likeness(written, truth, true_answer(filled, MANTISSA_BITS[name]))
        )
        detail = f"{self.precision}: relative error {error:.1e}, eager's {bench.classes.eager:.1e}"
        refused = self.precision != "fp32" and bench.classes.label(bench.classes.eager) == "fp32"
        if refused and not self.request.lower_precision:
            self.note("precision", CheckResult.FAIL, detail)
            raise Fallen(
                Outcome.SUSPECT,
                Stage.CHECK,
                f"computed with the precision of {self.precision} (relative error {error:.1e}, eager's "
                f"{bench.classes.eager:.1e}), which this session's policy refuses (lower_precision = false)",
            )
        self.note("precision", CheckResult.NOTE if refused else CheckResult.PASS, detail)

    # ------------------------------------------------------------------ timing

    def measure(self) -> Measurement:
        if self.workspace is not None:
            self.workspace = self.workspace_for(self.bench.main)
        self.quiet()
        renewal = Renewal(self, self.ring)
        try:
            measurement, last = measure(self, self.ring, renewal)
        except RunnerFailure as error:
            raise self.fall(error) from error
        self.check_guards(self.ring)
        self.note("guards intact", CheckResult.PASS)
        if measurement.badge is Badge.SUSPECT:
            return measurement
        for filled, old in zip(self.ring, renewal.fingerprints, strict=True):
            self.check_unchanged(filled, old)
        self.note("inputs unchanged", CheckResult.PASS)
        self.deliver(last)
        self.check_timed([self.ring[entry] for entry in last], VERIFIED_S[self.bench.device.type])
        return measurement

    def deliver(self, entries: Sequence[int]) -> None:
        """A module's answers come into the judge's memory when they are asked for."""
        if not self.request.module:
            return
        wrong = self.ask("deliver", entries=list(entries)).get("wrong")
        if wrong:
            raise Fallen(Outcome.SUSPECT, Stage.TIME, f"right when checked, wrong when timed: {wrong}")

    def check_unchanged(self, filled: Set, before: Sequence[torch.Tensor]) -> None:
        changed = self.bench.fingerprints.changed(filled.slot, before)
        if changed:
            self.note("inputs unchanged", CheckResult.FAIL, f"`{changed}` was written to while timed")
            raise Fallen(Outcome.SUSPECT, Stage.TIME, f"it wrote to its input `{changed}` while it was timed")

    def audit_timed(self, entry: int, before: Sequence[torch.Tensor]) -> None:
        """One entry of a slice that has just ended: its guards, its inputs, its outputs."""
        filled = self.ring[entry]
        self.deliver([entry])
        self.check_guards([filled])
        self.check_unchanged(filled, before)
        self.check_timed_output(filled)

    def check_timed_output(self, filled: Set) -> None:
        findings = self.findings(filled, self.bench.expect(filled, truth=self.rules.truth))
        reports = [finding.report for finding in findings if finding.report is not None]
        if not reports:
            return
        self.note("timed outputs", CheckResult.FAIL, reports[0].pattern)
        words = mismatch_words(reports[0], findings)
        if self.is_wrong_untimed(filled):
            words = f"right on the inputs that were checked, wrong on others, timed or not: {words}"
            raise Fallen(Outcome.MISMATCH, Stage.TIME, words, reports)
        raise Fallen(Outcome.SUSPECT, Stage.TIME, f"right when checked, wrong when timed: {words}", reports)

    def is_wrong_untimed(self, filled: Set) -> bool:
        """Whether the first call of a fresh process is wrong on these inputs too: then it is they, not the clock.

        An honest kernel at the edge of a tolerance is a wrong one; whoever counts calls or looks for a clock is right there.
        """
        assert self.runner is not None
        self.runner.close()
        fresh = Trial(self.bench, self.request, self.rules, self.lane, self.quiet)
        try:
            fresh.runner = self.lane.start(self.bench, self.request)
            fresh.open()
            fresh.at.stage = Stage.CHECK
            filled.slot.poison()
            fresh.call(filled, fresh.workspace_for(self.bench.main))
        except Fallen:
            return False
        finally:
            fresh.finish()
        findings = self.findings(filled, self.bench.expect(filled, truth=self.rules.truth))
        return any(finding.report is not None for finding in findings)

    def check_timed(self, order: list[Set], budget_s: float) -> None:
        """Outputs of the last slice, in an order that nobody knows, for as long as it is worth; four at least."""
        random.SystemRandom().shuffle(order)
        end, done = time.monotonic() + budget_s, 0
        for filled in order:
            self.check_timed_output(filled)
            done += 1
            if done >= 4 and time.monotonic() > end:
                break
        self.note("timed outputs", CheckResult.PASS, f"{done} of {len(order)} ring entries verified after timing")

    def conclude(self, measurement: Measurement) -> Verdict:
        if measurement.badge is Badge.SUSPECT:
            message = next(
                (check.detail for check in self.at.checks if check.result is CheckResult.FAIL),
                "its timing cannot be believed",
            )
            return Verdict(outcome=Outcome.SUSPECT, stage=Stage.TIME, message=message, measurement=measurement)
        if self.request.certify and measurement.badge is Badge.MEASURED and self.is_certain():
            measurement = replace(measurement, badge=Badge.CERTIFIED)
        return Verdict(outcome=Outcome.CORRECT, stage=Stage.DONE, measurement=measurement)

    def is_certain(self) -> bool:
        """Sanitizers on a GPU; a host has none, there the fresh process and the fresh secrets are all."""
        if self.bench.device.type == "cpu" or self.request.module:
            return True
        found = sanitize(self, self.ring[0])
        for name, result, detail in found:
            self.note(name, result, detail)
        return all(result is CheckResult.PASS for _, result, _ in found)
