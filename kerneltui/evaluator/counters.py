"""Texts of ncu and perf as figures. Pure.

read_ncu       ncu --csv --page raw --print-units base -> a KernelProfile for every kernel
ncu_trouble    why ncu counted nothing, with the remedy
read_perf      perf stat -x, -> events that were counted, and those that were not
host_figures   events and calls -> what they say of one call
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence

from kerneltui.records import Figure, KernelProfile

# metric -> (name, factor, unit); the first of several with one name that is there counts
METRICS: tuple[tuple[str, str, float, str], ...] = (
    ("gpu__time_duration.sum", "duration", 1e-3, "µs"),
    ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "DRAM throughput", 1, "%"),
    ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "DRAM throughput", 1, "%"),
    ("lts__throughput.avg.pct_of_peak_sustained_elapsed", "L2 throughput", 1, "%"),
    ("l1tex__throughput.avg.pct_of_peak_sustained_active", "L1 throughput", 1, "%"),
    ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "SM throughput", 1, "%"),
    ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "tensor pipes", 1, "%"),
    ("sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", "tensor pipes", 1, "%"),
    ("sm__warps_active.avg.pct_of_peak_sustained_active", "achieved occupancy", 1, "%"),
    ("sm__maximum_warps_per_active_cycle_pct", "theoretical occupancy", 1, "%"),
    ("lts__t_sector_hit_rate.pct", "L2 hits", 1, "%"),
    ("l1tex__t_sector_hit_rate.pct", "L1 hits", 1, "%"),
    ("dram__bytes.sum.per_second", "DRAM rate", 1e-9, "GB/s"),
    ("dram__bytes_read.sum", "read from DRAM", 1e-6, "MB"),
    ("dram__bytes_write.sum", "written to DRAM", 1e-6, "MB"),
    ("launch__registers_per_thread", "registers a thread", 1, ""),
    ("launch__shared_mem_per_block", "shared memory a block", 1, "bytes"),
    ("launch__grid_size", "blocks", 1, ""),
    ("launch__block_size", "threads a block", 1, ""),
    ("launch__waves_per_multiprocessor", "waves", 1, ""),
    ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "bank conflicts", 1, ""),
)
STALL = re.compile(r"smsp__average_warps?_(?:latency_)?issue_stalled_(\w+?)(?:_per_issue_active)?\.(?:ratio|pct)")
NO_STALLS = ("selected", "not_selected")  # the warp did issue, or another was ready: nothing was waited for
STALLS_SHOWN = 3
# --print-units base gives these; each factor leads to the base that METRICS counts from
UNITS = {"second": 1e9, "s": 1e9, "msecond": 1e6, "ms": 1e6, "usecond": 1e3, "us": 1e3,
         "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12, "Kbyte/block": 1e3,
         "Kbyte/second": 1e3, "Mbyte/second": 1e6, "Gbyte/second": 1e9, "Tbyte/second": 1e12,
         "KB": 1e3, "MB": 1e6, "GB": 1e9, "KB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12}  # fmt: skip


def read_ncu(text: str) -> tuple[KernelProfile, ...]:
    """Kernels in the order of their first launch; figures are means over a kernel's launches."""
    rows = _table(text)
    if len(rows) < 3:
        return ()
    header, units = rows[0], dict(zip(rows[0], rows[1], strict=False))
    launches: dict[str, list[dict[str, float]]] = {}
    for row in rows[2:]:
        cells = dict(zip(header, row, strict=False))
        values = {name: value for name, cell in cells.items() if (value := _number(cell, units[name])) is not None}
        launches.setdefault(_kernel_name(cells.get("Kernel Name", "?")), []).append(values)
    return tuple(_kernel(name, every) for name, every in launches.items())


def _table(text: str) -> list[list[str]]:
    """The lines from the header on; what ncu says besides begins with ==."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("==")]
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    return list(csv.reader(io.StringIO("\n".join(lines[start:]))))


def _number(cell: str, unit: str) -> float | None:
    try:
        return float(cell.replace(",", "")) * UNITS.get(unit, 1.0)
    except ValueError:
        return None


def _kernel_name(text: str) -> str:
    """`void k<float>(float *, int)` -> `k<float>`."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[at], 0)
        if depth == 0 and text[at] == "(" and at:
            return text[:at].strip().removeprefix("void ")
    return text.strip()


def _kernel(name: str, launches: Sequence[Mapping[str, float]]) -> KernelProfile:
    means: dict[str, float] = {}
    for metric in {metric for launch in launches for metric in launch}:
        values = [launch[metric] for launch in launches if metric in launch]
        means[metric] = sum(values) / len(values)
    figures: dict[str, Figure] = {}
    for metric, title, factor, unit in METRICS:
        if metric in means and title not in figures:
            figures[title] = Figure(name=title, value=means[metric] * factor, unit=unit)
    return KernelProfile(name=name, launches=len(launches), figures=(*figures.values(), *_stalls(means)))


def _stalls(means: Mapping[str, float]) -> list[Figure]:
    """What warps wait for most, in warps that wait for each instruction issued."""
    found: dict[str, float] = {}
    for metric, value in means.items():
        stall = STALL.fullmatch(metric)
        if stall and stall[1] not in NO_STALLS and not stall[1].endswith("_not_issued"):
            found[stall[1]] = max(value, found.get(stall[1], 0.0))
    top = sorted(found.items(), key=lambda item: -item[1])[:STALLS_SHOWN]
    return [
        Figure(name=f"stalled: {name.replace('_', ' ')}", value=value, unit="warps") for name, value in top if value
    ]


PERMISSION = (
    "the driver keeps its counters for administrators (ERR_NVGPUCTRPERM): run as root (a container needs "
    "--cap-add SYS_ADMIN), or put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into /etc/modprobe.d and reboot"
)
TROUBLES = (
    (re.compile(r"ERR_NVGPUCTRPERM"), PERMISSION),
    (
        re.compile(r"driver resource was unavailable", re.I),
        "another tool counts on this GPU (DCGM does): pause it, with `dcgmi profile --pause`, and try again",
    ),
    (
        re.compile(r"No kernels were profiled", re.I),
        "ncu saw no kernel: one call of this candidate launches none",
    ),
)


def ncu_trouble(text: str) -> str:
    """A sentence; "" where ncu names no trouble."""
    for pattern, words in TROUBLES:
        if pattern.search(text):
            return words
    error = re.search(r"^==ERROR== (.+)", text, re.M)
    return f"ncu says: {error[1].strip()}" if error else ""


UNKNOWN_METRIC = re.compile(r"Failed to find metric", re.I)  # this ncu names some counter otherwise


# --------------------------------------------------------------------------- perf

EVENTS = ("task-clock", "context-switches", "page-faults", "cycles", "instructions", "branches", "branch-misses",
          "cache-references", "cache-misses", "L1-dcache-loads", "L1-dcache-load-misses")  # fmt: skip
SCALE = {"msec": 1e6}  # to ns
LINE_BYTES = 64  # of a cache, on every processor that we know


def read_perf(text: str) -> tuple[dict[str, float], tuple[str, ...]]:
    """(event -> count, with task-clock in ns; events that this machine does not count)."""
    counted: dict[str, float] = {}
    missing: list[str] = []
    for line in text.splitlines():
        cells = line.split(",")
        if line.startswith("#") or len(cells) < 3:
            continue
        event = cells[2].partition(":")[0]
        try:
            counted[event] = float(cells[0]) * SCALE.get(cells[1], 1.0)
        except ValueError:
            missing.append(event)
    return counted, tuple(missing)


def host_figures(
    counted: Mapping[str, float], calls: int, elapsed_ns: float, cores: int | None = None
) -> tuple[Figure, ...]:
    """Events of `calls` calls as figures of one; what was not counted is left out. `cores`: how many it may use."""
    calls = max(1, calls)
    seconds = elapsed_ns / 1e9
    found = [Figure(name="duration", value=elapsed_ns / 1e3 / calls, unit="µs")]

    def add(name: str, value: float | None, unit: str = "") -> None:
        if value is not None:
            found.append(Figure(name=name, value=value, unit=unit))

    each = {event: count / calls for event, count in counted.items()}
    add("cores at work", _ratio(counted.get("task-clock"), elapsed_ns), f"of {cores}" if cores else "")
    add("clock", _ratio(counted.get("cycles"), counted.get("task-clock")), "GHz")
    add("instructions per cycle", _ratio(counted.get("instructions"), counted.get("cycles")))
    add("instructions", each.get("instructions"))
    add("L1 misses", _share(counted, "L1-dcache-load-misses", "L1-dcache-loads"), "%")
    add("last-level misses", _share(counted, "cache-misses", "cache-references"), "%")
    misses = counted.get("cache-misses")
    add("memory traffic by misses", misses * LINE_BYTES / seconds / 1e9 if misses and seconds else None, "GB/s")
    add("branch misses", _share(counted, "branch-misses", "branches"), "%")
    add("page faults", each.get("page-faults"))
    add("context switches", each.get("context-switches"))
    return tuple(found)


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def _share(counted: Mapping[str, float], part: str, whole: str) -> float | None:
    ratio = _ratio(counted.get(part), counted.get(whole))
    return None if ratio is None else 100 * ratio


# --------------------------------------------------------------------------- words


def figure_text(figure: Figure) -> str:
    """`83.2 %`, `1,412 GB/s`, `2.77 ms`, `0.031`."""
    value = figure.value
    if figure.unit == "µs" and abs(value) >= 1000:
        return f"{value / 1000:.3g} ms" if abs(value) < 1_000_000 else f"{value / 1_000_000:.3g} s"
    digits = f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"
    return f"{digits} {figure.unit}".rstrip()
