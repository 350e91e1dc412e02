"""The devices of this machine as records, and what is wrong with it, in words.

list_devices, find_device   what can be searched on
offline_cuda_device         no GPU, but nvcc: candidates are compiled and not run
device_environment          how a child process is made to see one device only
readings                    clocks, temperature, load: now
missing, doctor             what is not there, with the remedy
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from kerneltui.errors import ToolchainMissing, UsageError
from kerneltui.evaluator import cpu, gpus, sandbox, toolkits
from kerneltui.evaluator.gpus import Gpu, Survey
from kerneltui.evaluator.toolkits import Compiler
from kerneltui.records import Check, CheckResult, Device

NO_GPU = "cuda:none"  # id of a device that stands for an architecture only


def list_devices() -> list[Device]:
    """GPUs that this process sees, in CUDA's order, then the CPU."""
    seen = _survey()
    return [*(_gpu_device(gpu, index, seen) for index, gpu in enumerate(seen.visible)), cpu_device()]


def find_devices(names: Sequence[str]) -> list[Device]:
    """Devices that share one search.

    Raises:
        UsageError: no such device, two that are the same, share cores or are of different kinds.
        MachineError: one cannot be used.
    """
    found = [find_device(name) for name in names]
    for index, device in enumerate(found):
        for other in found[:index]:
            if other.kind != device.kind:
                raise UsageError(f"{other.id} and {device.id} are of different kinds: a search runs on one kind")
            shared = set(device_cores(other)) & set(device_cores(device))
            if other.id == device.id or shared:
                raise UsageError(f"{other.id} and {device.id} overlap: work on one would disturb timings on the other")
    return found


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
        unknown = "" if word in ("auto", "cuda") else f"no device {word!r}: "
        raise UsageError(f"{unknown}no GPU to use: {seen.problem}. `--device cpu` searches on the host processor")
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


# --------------------------------------------------------------------------- what is not there


def missing(kind: str) -> list[str]:
    """What a search on this kind of device ("cuda" or "cpu") still needs here, with the remedy; nothing is good."""
    if kind != "cuda":
        return [] if toolkits.host_compiler() else [toolkits.NO_HOST_COMPILER]
    seen = _survey()
    words = [] if seen.visible else [f"no GPU to use: {seen.problem}"]
    architectures = _architectures(seen.visible[0]) if seen.visible else ("sm_90a",)
    found = toolkits.find_nvccs(architectures[0], seen.cuda)
    if not any(not nvcc.problem for nvcc in found) and not (seen.visible and _usable_nvccs(seen.visible[0], seen)):
        words.append(_no_nvcc(architectures[0], found))
    words += [check.detail for check in _python_checks() if check.result is CheckResult.FAIL]
    return words


def doctor() -> list[Check]:
    """Every part that a search rests on, tried, in words."""
    seen = _survey()
    return [
        *_gpu_checks(seen),
        *_nvcc_checks(seen),
        *_host_checks(),
        *_python_checks(),
        Check(
            name="sandbox",
            result=CheckResult.PASS if sandbox.best_level() is not sandbox.Level.LIMITS else CheckResult.NOTE,
            detail=sandbox.level(),
        ),
        _program_check("tmux", "keeps a viewer alive over a lost SSH connection; a search lives without it"),
        _program_check("ncu", "profiles CUDA kernels on request"),
        _program_check("perf", "profiles C++ kernels on request"),
        _program_check("objdump", "shows the machine code of C++ kernels"),
        _program_check("compute-sanitizer", "certifies winners"),
    ]


def _gpu_checks(seen: Survey) -> list[Check]:
    if not seen.visible:
        return [Check(name="GPU", result=CheckResult.NOTE, detail=f"none: {seen.problem}. Searches run on the CPU")]
    cuda = ".".join(map(str, seen.cuda)) if seen.cuda else "unknown"
    driver = Check(name="NVIDIA driver", result=CheckResult.PASS, detail=f"{seen.driver or 'unknown'}, CUDA {cuda}")
    checks = [
        Check(name=f"cuda:{index}", result=CheckResult.PASS, detail=f"{gpu.name}, {_capability(gpu)}, {gpu.uuid}")
        for index, gpu in enumerate(seen.visible)
    ]
    hidden = len(seen.present) - len(seen.visible)
    if hidden > 0 and os.environ.get("CUDA_VISIBLE_DEVICES") is not None:
        value = os.environ["CUDA_VISIBLE_DEVICES"]
        checks.append(
            Check(name="CUDA_VISIBLE_DEVICES", result=CheckResult.NOTE, detail=f"{value!r} hides {hidden} more")
        )
    return [driver, *checks]


def _nvcc_checks(seen: Survey) -> list[Check]:
    gpu = seen.visible[0] if seen.visible else None
    architectures = _architectures(gpu) if gpu else ("sm_90a",)
    usable = _usable_nvccs(gpu, seen) if gpu else []
    architecture = usable[0][0] if usable else architectures[0]
    found = toolkits.find_nvccs(architecture, seen.cuda)
    if not found:
        return [Check(name="nvcc", result=CheckResult.FAIL if gpu else CheckResult.NOTE, detail=_no_nvcc("", found))]
    used = next((nvcc for nvcc in found if not nvcc.problem), None)
    checks = [
        Check(name="nvcc", result=_nvcc_result(nvcc, used), detail=_nvcc_words(nvcc, used, architecture))
        for nvcc in found
    ]
    if os.environ.get("TORCH_CUDA_ARCH_LIST"):
        detail = f"TORCH_CUDA_ARCH_LIST is not followed: code is built for {architecture} itself"
        checks.append(Check(name="architectures", result=CheckResult.NOTE, detail=detail))
    return checks


def _nvcc_result(nvcc: Compiler, used: Compiler | None) -> CheckResult:
    if nvcc is used:
        return CheckResult.PASS
    return CheckResult.FAIL if used is None else CheckResult.NOTE


def _nvcc_words(nvcc: Compiler, used: Compiler | None, architecture: str) -> str:
    place = f"{nvcc.path} {nvcc.version} ({nvcc.found})"
    if nvcc is used:
        return f"{place}: used, the first that builds for {architecture}; machine code only, no PTX to translate"
    return f"{place}: {nvcc.problem}" if nvcc.problem else f"{place}: not used, another comes first"


def _host_checks() -> list[Check]:
    found = toolkits.find_host_compilers()
    used = next((compiler for compiler in found if not compiler.problem), None)
    if not found:
        return [Check(name="C++ compiler", result=CheckResult.FAIL, detail=toolkits.NO_HOST_COMPILER)]
    return [
        Check(
            name="C++ compiler",
            result=_nvcc_result(compiler, used),
            detail=f"{compiler.path} ({compiler.found}): {compiler.problem or compiler.version}"
            + (", used" if compiler is used else ""),
        )
        for compiler in found
    ]


def _python_checks() -> list[Check]:
    """torch and cuda.bindings, found without importing either."""
    torch = importlib.util.find_spec("torch")
    folders = list(torch.submodule_search_locations or ()) if torch else []
    if not folders:
        detail = "torch is not installed: pip install torch"
        return [Check(name="torch", result=CheckResult.FAIL, detail=detail)]
    text = Path(folders[0], "version.py").read_text() if Path(folders[0], "version.py").exists() else ""
    version, cuda = (_assigned(text, name) for name in ("__version__", "cuda"))
    if not cuda:
        detail = f"torch {version} is built without CUDA: install a CUDA build to search on a GPU"
        return [Check(name="torch", result=CheckResult.FAIL if _survey().visible else CheckResult.NOTE, detail=detail)]
    checks = [Check(name="torch", result=CheckResult.PASS, detail=f"{version}, CUDA {cuda}")]
    if not _has_cuda_bindings():
        detail = "cuda-bindings is not installed: pip install cuda-bindings"
        checks.append(Check(name="cuda-bindings", result=CheckResult.FAIL, detail=detail))
    return checks


def _assigned(text: str, name: str) -> str:
    found = re.search(rf"^{name}\b[^=\n]*= '([^']+)'", text, re.M)
    return found.group(1) if found else ""


def _has_cuda_bindings() -> bool:
    spec = importlib.util.find_spec("cuda")
    return (
        any(Path(folder, "bindings").is_dir() for folder in (spec.submodule_search_locations or ())) if spec else False
    )


def _program_check(name: str, purpose: str) -> Check:
    path = shutil.which(name)
    result = CheckResult.PASS if path else CheckResult.NOTE
    return Check(name=name, result=result, detail=path or f"not here; it {purpose}")


def _capability(gpu: Gpu) -> str:
    return f"capability {gpu.capability[0]}.{gpu.capability[1]}" if gpu.capability else "capability unknown"
