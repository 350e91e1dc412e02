"""The host processor, as Linux describes it."""

from __future__ import annotations

import functools
import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path

from kerneltui.records import sha256

# x86-64 psABI, "Micro-Architecture Levels", by the flags of /proc/cpuinfo.
X86_LEVELS = {
    "x86-64-v2": {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    "x86-64-v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}
SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@functools.cache
def cpuinfo() -> dict[str, str]:
    """The first processor's entries of /proc/cpuinfo."""
    first = _read("/proc/cpuinfo").partition("\n\n")[0]
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}


def cpu_name() -> str:
    return cpuinfo().get("model name") or platform.processor() or platform.machine()


def cpu_architecture() -> str:
    """ "x86-64-v4", or the machine's own word elsewhere."""
    if platform.machine() != "x86_64":
        return platform.machine()
    flags, level = set(cpu_flags()), "x86-64"
    for name, wanted in X86_LEVELS.items():
        if not wanted <= flags:
            break
        level = name
    return level


def cpu_flags() -> list[str]:
    return (cpuinfo().get("flags") or cpuinfo().get("Features", "")).split()


def features_digest() -> str:
    """What -march=native depends on: code built under one digest may not run under another."""
    info = cpuinfo()
    return sha256(repr((cpu_name(), info.get("cpu family"), info.get("model"), sorted(cpu_flags()))))[:16]


def available_cores() -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(0)))


def cores_text(cores: Iterable[int]) -> str:
    """(0, 1, 2, 5) -> "0-2,5"."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def read_cores(text: str) -> tuple[int, ...]:
    """The inverse.

    Raises:
        ValueError: not such a list.
    """
    cores: set[int] = set()
    for part in text.split(","):
        low, dash, high = part.partition("-")
        cores.update(range(int(low), int(high if dash else low) + 1))
    return tuple(sorted(cores))


def last_level_cache_bytes() -> int | None:
    found: list[tuple[int, int]] = []
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        size = re.fullmatch(r"(\d+)([KMG])", _read(folder / "size").strip())
        level = _read(folder / "level").strip()
        if size and level.isdigit():
            found.append((int(level), int(size.group(1)) * SIZES[size.group(2)]))
    return max(found)[1] if found else None


def memory_bytes() -> int | None:
    total = re.search(r"MemTotal:\s+(\d+) kB", _read("/proc/meminfo"))
    return int(total.group(1)) * 1024 if total else None


def cpu_readings(cores: Iterable[int]) -> dict[str, str]:
    """Clock and load, in words; "–" for what the kernel does not tell."""
    clocks = [_read(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq").strip() for core in cores]
    known = [int(clock) for clock in clocks if clock.isdigit()]
    available = re.search(r"MemAvailable:\s+(\d+) kB", _read("/proc/meminfo"))
    return {
        "clock": f"{max(known) / 1000:.0f} MHz" if known else "–",
        "load": f"{os.getloadavg()[0]:.2f}",
        "memory free": f"{int(available.group(1)) / 2**20:.1f} GiB" if available else "–",
    }


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
