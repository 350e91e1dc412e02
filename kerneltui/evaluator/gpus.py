"""The GPUs of this machine: who they are, which of them a process sees, and what the driver tells about them.

Identity is the UUID, everywhere: an index means another device under another CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerneltui.errors import MachineError
from kerneltui.evaluator.programs import clean_environment, run_briefly

PROBE = str(Path(__file__).with_name("cuda_probe.py"))
PROBE_S = 60.0  # a driver without persistence mode takes many seconds to wake eight GPUs
UNREADABLE = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One physical GPU, or one MIG instance."""

    uuid: str  # "GPU-…" or "MIG-…"
    name: str = ""
    capability: tuple[int, int] | None = None
    memory_bytes: int | None = None
    sms: int | None = None
    l2_bytes: int | None = None
    shared_per_block: int | None = None
    registers_per_block: int | None = None
    instances: tuple[Gpu, ...] = ()  # MIG instances, when MIG is on
    legacy_name: str = ""  # MIG instances of older drivers: "MIG-GPU-…/1/0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What was found."""

    visible: tuple[Gpu, ...] = ()  # in CUDA's order
    present: tuple[Gpu, ...] = ()  # as NVML lists them
    driver: str = ""  # "580.82"
    cuda: tuple[int, int] | None = None  # newest CUDA the driver runs
    problem: str = ""  # why nothing is visible


# --------------------------------------------------------------------------- CUDA_VISIBLE_DEVICES


def visible(value: str | None, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The GPUs that a process with CUDA_VISIBLE_DEVICES = `value` sees, in its order; None is unset.

    The first word decides how all are read: indices, GPU UUIDs or MIG names, each UUID by any unique prefix. The
    list ends at the first word that names nothing; a device named twice leaves none. One MIG instance at most.
    Source: CUDA C++ Programming Guide, "CUDA Environment Variables".
    """
    if value is None:
        return _first_instance(gpus)
    words = [word.strip() for word in value.split(",")]
    if words[0].startswith("MIG-"):
        return tuple(_named(words, "MIG-", [instance for gpu in gpus for instance in gpu.instances])[:1])
    if words[0].startswith("GPU-"):
        return _first_instance(_named(words, "GPU-", gpus))
    return _first_instance(_indexed(words, gpus))


def _first_instance(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """With MIG on, CUDA sees one instance only, and whole GPUs before any instance."""
    whole = tuple(gpu for gpu in gpus if not gpu.instances)
    return whole or tuple(instance for gpu in gpus for instance in gpu.instances)[:1]


def _named(words: Sequence[str], kind: str, gpus: Sequence[Gpu]) -> list[Gpu]:
    found: list[Gpu] = []
    for word in words:
        names = [
            gpu for gpu in gpus if word.startswith(kind) and (gpu.uuid.startswith(word) or gpu.legacy_name == word)
        ]
        if len(names) != 1:
            break
        found.append(names[0])
    return found if len(set(gpu.uuid for gpu in found)) == len(found) else []


def _indexed(words: Sequence[str], gpus: Sequence[Gpu]) -> list[Gpu]:
    found: list[int] = []
    for word in words:
        number = re.match(r"[+-]?\d+", word)  # as strtol: "1gpu" is 1
        if number is None or not 0 <= int(number.group()) < len(gpus):
            break
        found.append(int(number.group()))
    return [gpus[index] for index in found] if len(set(found)) == len(found) else []


# --------------------------------------------------------------------------- what is here


@functools.cache
def survey(visible_devices: str | None, device_order: str | None) -> Survey:
    """Ask driver and NVML. The environment's own values are arguments, so that a change is a new question."""
    present, driver, nvml_cuda = _ask_nvml()
    probed = _ask_driver()
    cuda = tuple(probed["cuda"]) if probed.get("cuda") else nvml_cuda
    if "devices" in probed:
        seen = tuple(_from_probe(entry, present) for entry in probed["devices"])
    else:
        seen = visible(visible_devices, present)
    problem = "" if seen else _why_nothing(probed.get("error", ""), visible_devices, present)
    return Survey(visible=seen, present=present, driver=driver, cuda=cuda, problem=problem)


def _why_nothing(error: str, visible_devices: str | None, present: Sequence[Gpu]) -> str:
    if present and visible_devices is not None:
        names = ", ".join(f"{index}: {gpu.name} {gpu.uuid}" for index, gpu in enumerate(present))
        return f"CUDA_VISIBLE_DEVICES={visible_devices!r} leaves no GPU; there are {names}"
    return error or "the driver lists no GPU"


def _ask_driver() -> dict[str, Any]:
    argv = [sys.executable, "-I", "-S", PROBE]
    try:
        asked = run_briefly(argv, timeout_s=PROBE_S, env=clean_environment())
    except MachineError as error:
        return {"error": str(error)}
    if asked.timed_out:
        return {"error": f"the NVIDIA driver did not answer within {PROBE_S:.0f} s"}
    try:
        answer: dict[str, Any] = json.loads(asked.stdout)
    except ValueError:
        return {"error": f"asking the NVIDIA driver failed with status {asked.returncode}"}
    return answer


def _from_probe(entry: dict[str, Any], present: Sequence[Gpu]) -> Gpu:
    everything = [gpu for physical in present for gpu in (physical, *physical.instances)]
    known = next((gpu for gpu in everything if gpu.uuid.partition("-")[2].lower() == entry["uuid"]), None)
    major, minor = entry["capability"]
    return Gpu(
        uuid=known.uuid if known else f"GPU-{entry['uuid']}",
        name=entry["name"],
        capability=(major, minor) if major is not None else None,
        memory_bytes=entry["memory_bytes"],
        sms=entry["sms"],
        l2_bytes=entry["l2_bytes"],
        shared_per_block=entry["shared_per_block"],
        registers_per_block=entry["registers_per_block"],
    )


# --------------------------------------------------------------------------- NVML


def open_nvml() -> Any | None:
    """pynvml, initialised; None where there is no driver. It counts its openings: cheap to call again."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _ask_nvml() -> tuple[tuple[Gpu, ...], str, tuple[int, int] | None]:
    nvml = open_nvml()
    if nvml is None:
        return (), "", None
    driver = ask(nvml, nvml.nvmlSystemGetDriverVersion)
    version = ask(nvml, nvml.nvmlSystemGetCudaDriverVersion)
    count = ask(nvml, nvml.nvmlDeviceGetCount) or 0
    handles = [ask(nvml, nvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
    gpus = tuple(_from_nvml(nvml, handle) for handle in handles if handle is not None)
    return gpus, _text(driver), (version // 1000, version % 1000 // 10) if version else None


def _from_nvml(nvml: Any, handle: Any) -> Gpu:
    memory = ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    capability = ask(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    return Gpu(
        uuid=_text(ask(nvml, nvml.nvmlDeviceGetUUID, handle)),
        name=_text(ask(nvml, nvml.nvmlDeviceGetName, handle)),
        capability=tuple(capability) if capability else None,
        memory_bytes=int(memory.total) if memory else None,
        instances=_instances(nvml, handle),
    )


def _instances(nvml: Any, handle: Any) -> tuple[Gpu, ...]:
    mode = ask(nvml, nvml.nvmlDeviceGetMigMode, handle)
    if not mode or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return ()
    slots = range(ask(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0)
    found = [ask(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, slot) for slot in slots]
    parent = _text(ask(nvml, nvml.nvmlDeviceGetUUID, handle))
    return tuple(_instance(nvml, instance, parent) for instance in found if instance is not None)


def _instance(nvml: Any, handle: Any, parent: str) -> Gpu:
    memory = ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    gpu_instance = ask(nvml, nvml.nvmlDeviceGetGpuInstanceId, handle)
    compute_instance = ask(nvml, nvml.nvmlDeviceGetComputeInstanceId, handle)
    return Gpu(
        uuid=_text(ask(nvml, nvml.nvmlDeviceGetUUID, handle)),
        name=_text(ask(nvml, nvml.nvmlDeviceGetName, handle)),
        memory_bytes=int(memory.total) if memory else None,
        legacy_name=f"MIG-{parent}/{gpu_instance}/{compute_instance}",
    )


def ask(nvml: Any, question: Callable[..., Any], *arguments: Any) -> Any | None:
    """The answer, or None where the driver withholds it."""
    try:
        return question(*arguments)
    except (nvml.NVMLError, AttributeError, TypeError, UnicodeDecodeError):
        return None  # not supported here, not permitted, or not in this version


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


# --------------------------------------------------------------------------- readings


def gpu_readings(uuid: str) -> dict[str, str]:
    """Clocks, temperature and the like, in words; "–" for what the driver withholds."""
    nvml = open_nvml()
    handle = ask(nvml, nvml.nvmlDeviceGetHandleByUUID, uuid) if nvml else None
    if nvml is None or handle is None:
        return dict.fromkeys(("SM clock", "memory clock", "temperature", "power", "busy", "memory used"), UNREADABLE)
    memory = ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    busy = ask(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
    power = ask(nvml, nvml.nvmlDeviceGetPowerUsage, handle)
    return {
        "SM clock": _unit(ask(nvml, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM), "MHz"),
        "memory clock": _unit(ask(nvml, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM), "MHz"),
        "temperature": _unit(ask(nvml, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU), "°C"),
        "power": UNREADABLE if power is None else f"{power / 1000:.0f} W",
        "busy": UNREADABLE if busy is None else f"{busy.gpu} %",
        "memory used": UNREADABLE if memory is None else f"{memory.used / 2**30:.1f} of {memory.total / 2**30:.0f} GiB",
    }


def _unit(value: Any | None, unit: str) -> str:
    return UNREADABLE if value is None else f"{value} {unit}"
