"""The devices of this machine as records, and what is wrong with it, in words.

list_devices, find_device   what can be searched on
offline_cuda_device         no GPU, but nvcc: candidates are compiled and not run
device_environment          how a child process is made to see one device only
readings                    clocks, temperature, load: now
missing, doctor             what is not there, with the remedy
"""

from __future__ import annotations

import os
import re

from kerneltui.errors import ToolchainMissing, UsageError
from kerneltui.evaluator import cpu, gpus, toolkits
from kerneltui.evaluator.gpus import Gpu, Survey
from kerneltui.evaluator.toolkits import Compiler
from kerneltui.records import Device

NO_GPU = "cuda:none"  # id of a device that stands for an architecture only


def list_devices() -> list[Device]:
    """GPUs that this process sees, in CUDA's order, then the CPU."""
    seen = _survey()
    return [*(_gpu_device(gpu, index, seen) for index, gpu in enumerate(seen.visible)), cpu_device()]


def find_device(name: str = "auto") -> Device:
    """The device called "auto", "cuda", "cpu", by index ("0", "cuda:0"), UUID, or id.

    Raises:
        UsageError: no such device; the message names those that exist.
    """
    word = name.strip()
    if word == "cpu" or word.startswith("cpu:"):
        return cpu_device(word.partition(":")[2])
    if word.startswith(f"{NO_GPU}"):
        return offline_cuda_device(word.partition("@")[2] or "sm_90a")
    seen = _survey()
    if word == "auto" and (not seen.visible or not _usable_nvccs(seen.visible[0], seen)):
        return cpu_device()
    index = _find_gpu(word, seen)
    return _gpu_device(seen.visible[index], index, seen)


def cpu_device(cores: str = "") -> Device:
    """The host processor, or some of its cores ("0-3,8").

    Raises:
        UsageError: cores that this process may not use.
    """
    available = cpu.available_cores()
    try:
        chosen = cpu.read_cores(cores) if cores else available
    except ValueError:
        chosen = ()
    if not chosen or not set(chosen) <= set(available):
        raise UsageError(f"no cores {cores!r} here; this process may use cpu:{cpu.cores_text(available)}")
    compiler = toolkits.host_compiler()
    return Device(
        id=f"cpu:{cpu.cores_text(chosen)}",
        kind="cpu",
        name=cpu.cpu_name(),
        architecture=cpu.cpu_architecture(),
        toolkit=compiler.version if compiler else "",
        compiler=compiler.path if compiler else "",
        cores=len(chosen),
        memory_bytes=cpu.memory_bytes(),
        l2_bytes=cpu.last_level_cache_bytes(),
        facts={"features": cpu.features_digest(), "vectors": _vectors()},
    )


def offline_cuda_device(architecture: str = "sm_90a") -> Device:
    """An architecture without a device: candidates are compiled for it and end as `not_run`.

    Raises:
        ToolchainMissing: no nvcc builds for it.
        UsageError: not the name of an architecture.
    """
    if not re.fullmatch(r"sm_\d{2,3}[af]?", architecture):
        raise UsageError(f"{architecture!r} is no architecture; they look like sm_90a")
    found = toolkits.find_nvccs(architecture)
    compiler = next((nvcc for nvcc in found if not nvcc.problem), None)
    if compiler is None:
        raise ToolchainMissing(_no_nvcc(architecture, found))
    return Device(
        id=NO_GPU,
        kind="cuda",
        name=f"no GPU ({architecture})",
        architecture=architecture,
        toolkit=compiler.version,
        compiler=compiler.path,
    )


def device_environment(device: Device) -> dict[str, str]:
    """Variables under which a child sees this device only, as index 0, whatever ours are."""
    if device.kind != "cuda" or device.id == NO_GPU:
        return {"CUDA_VISIBLE_DEVICES": ""}
    return {"CUDA_VISIBLE_DEVICES": device_uuid(device), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def device_uuid(device: Device) -> str:
    """ "GPU-…" or "MIG-…": the name of the lock, of NVML's readings, of the verdict."""
    return device.id.partition(":")[2]


def device_cores(device: Device) -> tuple[int, ...]:
    """The cores of a CPU device."""
    return cpu.read_cores(device.id.partition(":")[2]) if device.kind == "cpu" else ()


def readings(device: Device) -> dict[str, str]:
    """What the device says of itself now; "–" for what it will not say, never 0."""
    if device.kind == "cpu":
        return cpu.cpu_readings(device_cores(device))
    return gpus.gpu_readings(device_uuid(device))


# --------------------------------------------------------------------------- GPUs


def _survey() -> Survey:
    return gpus.survey(os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUDA_DEVICE_ORDER"))


def _find_gpu(word: str, seen: Survey) -> int:
    """Index among the visible GPUs."""
    if not seen.visible:
        raise UsageError(f"no GPU to use: {seen.problem}. `--device cpu` searches on the host processor")
    wanted = word.removeprefix("cuda:") if word.startswith("cuda:") else word
    if wanted in ("auto", "cuda"):
        return 0
    if wanted.isdigit() and int(wanted) < len(seen.visible):
        return int(wanted)
    prefix = wanted if wanted.startswith(("GPU-", "MIG-")) else f"GPU-{wanted}"
    matches = [index for index, gpu in enumerate(seen.visible) if gpu.uuid.lower().startswith(prefix.lower())]
    if len(matches) == 1 and not wanted.isdigit():
        return matches[0]
    known = ", ".join(f"cuda:{index} ({gpu.name}, {gpu.uuid})" for index, gpu in enumerate(seen.visible))
    raise UsageError(f"no device {word!r}; there are {known}, cpu:{cpu.cores_text(cpu.available_cores())}")


def _gpu_device(gpu: Gpu, index: int, seen: Survey) -> Device:
    usable = _usable_nvccs(gpu, seen)
    architecture, compiler = usable[0] if usable else (_architectures(gpu)[0], None)
    facts = {"index": str(index)}
    if seen.cuda:
        facts["driver CUDA"] = ".".join(map(str, seen.cuda))
    if gpu.capability:
        facts["compute capability"] = ".".join(map(str, gpu.capability))
    if gpu.shared_per_block:
        facts["shared memory per block, opt-in"] = f"{gpu.shared_per_block} bytes"
    if gpu.registers_per_block:
        facts["registers per block"] = str(gpu.registers_per_block)
    return Device(
        id=f"cuda:{gpu.uuid}",
        kind="cuda",
        name=gpu.name,
        architecture=architecture,
        driver=seen.driver,
        toolkit=compiler.version if compiler else "",
        compiler=compiler.path if compiler else "",
        cores=gpu.sms,
        memory_bytes=gpu.memory_bytes,
        l2_bytes=gpu.l2_bytes,
        facts=facts,
    )


def _architectures(gpu: Gpu) -> tuple[str, ...]:
    return toolkits.architectures(gpu.capability) if gpu.capability else ("",)


def _usable_nvccs(gpu: Gpu, seen: Survey) -> list[tuple[str, Compiler]]:
    """(architecture, nvcc) that builds for this GPU, best first; at most one is looked for."""
    for architecture in _architectures(gpu):
        for nvcc in toolkits.try_nvccs(architecture, seen.cuda):
            if not nvcc.problem:
                return [(architecture, nvcc)]
    return []


def _no_nvcc(architecture: str, found: tuple[Compiler, ...]) -> str:
    if not found:
        return (
            "no nvcc in CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda* or Python's nvidia packages: "
            "install the CUDA toolkit, or set CUDA_HOME to it"
        )
    tried = "; ".join(f"{nvcc.path} ({nvcc.found}): {nvcc.problem}" for nvcc in found)
    return f"no nvcc builds for {architecture}. Tried {tried}"


def _vectors() -> str:
    wanted = ("avx2", "fma", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile", "neon", "asimd", "sve")
    return " ".join(flag for flag in cpu.cpu_flags() if flag in wanted)
