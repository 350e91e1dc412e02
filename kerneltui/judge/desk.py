"""The judge's commands: prepare a problem, judge a candidate, profile one."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import msgspec
import torch

from kerneltui.errors import MachineError, ProblemError
from kerneltui.judge.bench import Bench, Workload, free_host_bytes
from kerneltui.judge.floor import Rates, floor_us
from kerneltui.judge.lanes import CudaLane, HostLane, Lane, ModuleLane, Spare
from kerneltui.judge.lint import Lint, check_reference
from kerneltui.judge.memory import check_fits
from kerneltui.judge.profiler import profile
from kerneltui.judge.reference import Reference, Signature
from kerneltui.judge.request import Request, Rules
from kerneltui.judge.runners import close_to_others
from kerneltui.judge.tolerance import PROFILES
from kerneltui.judge.trial import Trial
from kerneltui.records import Check, CheckResult

TRUTH_S = 0.4  # a float64 answer for every set is affordable up to here
HARD_S = 1.0  # eager calls up to here leave time for hard inputs
NO_DEVICE = "cuda:none"  # an architecture to compile for, and no device
CACHE_DEFAULT_BYTES = 32 << 20


class Desk:
    """Holds one problem at a time."""

    def __init__(self) -> None:
        self.bench: Bench | None = None
        self.rules: Rules | None = None
        self.lane: Lane | None = None
        self.modules: ModuleLane | None = None
        self.used: Lane | None = None  # by the last candidate
        self.rates: Rates | None = None

    def carry_out(self, command: dict[str, Any]) -> dict[str, Any]:
        """Dispatch by the command's word."""
        if command["op"] == "prepare":
            return self.prepare(command)
        if command["op"] == "judge":
            return self.judge(command)
        if command["op"] == "profile":
            return profile(self.trial(command), command["prefix"])
        raise MachineError(f"the judge knows no command `{command['op']}`")

    def prepare(self, command: dict[str, Any]) -> dict[str, Any]:
        """Load the references, largest last, and say what they are."""
        self.close()
        if command["device"]["id"] == NO_DEVICE:
            return describe_only(command)
        device = self.take_device(command)
        profile = PROFILES.get(command["tolerance"])
        if profile is None:
            raise ProblemError(
                f"there is no tolerance profile `{command['tolerance']}`; known are {', '.join(PROFILES)}"
            )
        path, free = command["path"], free_bytes(device)
        check_fits(command["sets"][-1]["source"], path, free, command["device"]["name"])
        lints: list[Lint] = []
        workloads: list[Workload] = []
        for entry in command["sets"]:
            reference = Reference(entry["source"], path, device)
            lint = check_reference(reference, profile, allow_nan=command["allow_nan"])
            lints.append(lint)
            workloads.append(
                Workload(
                    reference=reference,
                    module=lint.module,
                    signature=lint.signature,
                    symbols=tuple(entry["symbols"].values()),
                )
            )
        last = lints[-1]
        self.rules = Rules(
            tolerance=profile,
            allow_nan=command["allow_nan"],
            truth=last.truth_s is not None and last.truth_s < TRUTH_S,
            hard=last.eager_s < HARD_S,
            eager_s=last.eager_s,
            baseline_precision=precision_words(workloads[-1]),
        )
        cache = command["device"].get("l2_bytes") or CACHE_DEFAULT_BYTES
        floor = self.floor(workloads[-1], cache, free)
        self.rules = dataclasses.replace(self.rules, floor_us=floor)
        if device.type == "cuda":
            torch.cuda.empty_cache()  # what the lint used is free again
            free = free_bytes(device)
        self.bench = Bench(workloads, device, cache_bytes=cache, free_bytes=free)
        assert self.lane is not None
        return {
            "description": description(command, [work.signature for work in workloads]),
            "checks": [dataclasses.asdict(check) for check in last.checks],
            "baselines_us": {"eager": last.eager_s * 1e6},
            "floor_us": floor,
            "facts": {"flush": self.bench.flush, **self.rate_words()},
        }

    def floor(self, workload: Workload, cache_bytes: int, free_bytes: int) -> float | None:
        """A bound on the time of any kernel; None where the reference cannot be counted."""
        device = workload.reference.device
        if self.rates is None or self.rates.device != device:
            self.rates = Rates(device=device)
        try:
            return floor_us(workload, self.rates, cache_bytes=cache_bytes, free_bytes=free_bytes)
        except (RuntimeError, NotImplementedError):
            return None  # operators that the counter cannot follow

    def rate_words(self) -> dict[str, str]:
        """Measured rates for people and prompts."""
        if self.rates is None:
            return {}
        words = {"bandwidth": f"{self.rates.bytes_s / 1e9:,.0f} GB/s, copying"} if self.rates.bytes_s else {}
        for kind, rate in self.rates.products_s.items():
            words[f"products in {str(kind).removeprefix('torch.')}"] = f"{rate / 1e12:.3g} TFLOP/s"
        return words

    def take_device(self, command: dict[str, Any]) -> torch.device:
        """Pin this process to its cores, or open the GPU."""
        close_to_others()
        device = command["device"]
        if device["kind"] == "cuda":
            return self.take_gpu(device)
        cores = take_cores(device["id"])
        torch.set_num_threads(len(cores))
        # This thread is OpenMP's first and stays where its first place is: on another's core each would wait for the other.
        os.sched_setaffinity(0, {min(cores)})
        self.lane = HostLane(sorted(cores))
        return torch.device("cpu")

    def take_gpu(self, device: dict[str, Any]) -> torch.device:
        """The one GPU that this process sees."""
        if not torch.cuda.is_available():
            raise MachineError(
                f"PyTorch {torch.__version__} cannot use {device['name']}: a build for CUDA is needed, and a driver that "
                "is new enough for it"
            )
        torch.cuda.init()
        torch.cuda.set_device(0)
        self.lane = CudaLane(device["id"].partition(":")[2])
        return torch.device("cuda", 0)

    def judge(self, command: dict[str, Any]) -> dict[str, Any]:
        """The verdict on one compiled candidate."""
        trial = self.trial(command)
        verdict = trial.run()
        if trial.bench.device.type == "cuda":
            torch.cuda.empty_cache()  # pools of this candidate's graphs
        return {"verdict": msgspec.to_builtins(verdict)}

    def trial(self, command: dict[str, Any]) -> Trial:
        """A trial of the candidate that a command names, not begun."""
        if self.bench is None or self.rules is None or self.lane is None:
            raise MachineError("the judge was asked before it was given a problem")
        request = msgspec.convert(command["request"], Request)
        lane: Lane = self.module_lane() if request.module else self.lane
        self.used = lane
        return Trial(self.bench, request, self.rules, lane, self.settle)

    def get_ready(self) -> None:
        """Between two candidates: the next one's process starts, of the kind that the last one needed."""
        if isinstance(self.used, CudaLane | ModuleLane):
            self.used.spare.keep()

    def settle(self) -> None:
        """Before anything is timed: no process of ours starts meanwhile."""
        for spare in self.spares():
            spare.settle()
        if self.modules is not None and self.modules.eager is not None:
            self.modules.eager.settle()

    def spares(self) -> list[Spare]:
        """Of each kind that has met a candidate."""
        return [lane.spare for lane in (self.lane, self.modules) if isinstance(lane, CudaLane | ModuleLane)]

    def module_lane(self) -> ModuleLane:
        """Made when the first module candidate comes."""
        if self.modules is None:
            assert self.bench is not None
            watch = self.lane.watch if isinstance(self.lane, CudaLane) else None
            self.modules = ModuleLane(torch.get_num_threads(), self.bench.device, self.bench.arena, watch)
        return self.modules

    def close(self) -> None:
        """Let go of the problem's memory, and of what waits for its candidates."""
        for spare in self.spares():
            spare.close()
        if self.modules is not None and self.modules.eager is not None:
            self.modules.eager.close()
        self.modules = self.used = None
        if self.bench is not None:
            self.bench.close()
            self.bench = None


def description(command: dict[str, Any], signatures: Sequence[Signature]) -> dict[str, Any]:
    """Signatures as the contract is made from them: at the largest sizes, and at each choice of symbolic ones."""
    return {
        **signatures[-1].words(),
        "sizes": [
            {"symbols": entry["symbols"], **signature.words()}
            for entry, signature in zip(command["sets"], signatures, strict=True)
            if entry["symbols"]
        ],
    }


def describe_only(command: dict[str, Any]) -> dict[str, Any]:
    """The signature without a device: the reference is followed on shapes alone."""
    meta = torch.device("meta")
    signatures: list[Signature] = []
    for entry in command["sets"]:
        reference = Reference(entry["source"], command["path"], meta)
        inputs = reference.make_inputs(0)
        module = reference.make_module(0).eval()
        signatures.append(reference.sign(module, inputs, reference.run(module, inputs)))
    words = "nothing is judged: there is no device; candidates are only compiled"
    check = Check(name="device", result=CheckResult.SKIPPED, detail=words)
    return {
        "description": description(command, signatures),
        "checks": [dataclasses.asdict(check)],
        "baselines_us": {},
        "facts": {},
    }


def take_cores(device_id: str) -> set[int]:
    """Run on the cores of "cpu:0-1" or "cpu:0,2-3" from here on; those of them that this process may use."""
    cores: set[int] = set()
    for part in device_id.removeprefix("cpu:").split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            cores.update(range(int(first), int(last or first) + 1))
    try:
        # OpenMP has this thread on one core already: the kernel says what it might have.
        os.sched_setaffinity(0, cores)
    except OSError as error:
        raise MachineError(f"none of the cores of `{device_id}` may be used by this process") from error
    return os.sched_getaffinity(0)


def precision_words(workload: Workload) -> str:
    """Type of the baseline's operands, and whether it may use TF32."""
    kinds = sorted({tensor.dtype for tensor in workload.tensors if tensor.dtype.startswith(("float", "bfloat"))})
    words = ", ".join(kinds) or "whole numbers"
    if workload.reference.device.type == "cuda" and "float32" in kinds:
        products = "on" if torch.backends.cuda.matmul.allow_tf32 else "off"
        convolutions = "on" if torch.backends.cudnn.allow_tf32 else "off"
        words += f"; TF32 {products} for matrix products, {convolutions} for convolutions"
    return words


def free_bytes(device: torch.device) -> int:
    """Memory that is free on the device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return free_host_bytes()
