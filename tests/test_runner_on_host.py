"""Memory and cores of a runner on a host: no page's first touch under the clock, no thread that waits for another's core."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from kerneltui.commands import judging
from kerneltui.evaluator.devices import cpu_device
from kerneltui.evaluator.judges import thread_environment
from kerneltui.records import Device
from kerneltui.runner.mapping import map_arena
from kerneltui.tui import typed

PAGE = resource.getpagesize()
KEEPING = """
import json, resource, sys, torch
from kerneltui.runner.module import leave_room

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

places = [torch.ones(128 << 10) for _ in range(16)]  # 512 KiB each
kept = [torch.empty_like(place).fill_(1) for place in places]
if sys.argv[1] == "room":
    leave_room(sum(place.nbytes for place in places))
torch.relu(torch.ones(9))
before = faults()
for _ in range(4):
    for entry, place in enumerate(places):
        kept[entry] = torch.relu(place)
print(json.dumps(faults() - before))
"""


def faults_of_kept_results(how: str) -> int:
    """In a process of its own, with malloc as judge and runner have it."""
    surroundings = {**os.environ, "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 50)}
    found = subprocess.run(
        [sys.executable, "-c", KEEPING, how], env=surroundings, capture_output=True, text=True, timeout=120, check=True
    )
    return int(json.loads(found.stdout))


def test_kept_results_find_room_that_was_written_to() -> None:
    assert faults_of_kept_results("room") < 16 <= faults_of_kept_results("none")


def touch(descriptor: int, populated: int, pages: int) -> list[int]:
    """Page faults of a first read of every page."""
    memory = map_arena(os.dup(descriptor), pages * PAGE, populated * PAGE)
    counts = []
    for page in range(pages):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        memory[page * PAGE]
        counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    memory.close()
    return counts


def test_input_sets_are_mapped_before_they_are_read_and_the_rest_is_not() -> None:
    if tuple(int(part) for part in os.uname().release.split(".")[:2]) < (5, 14):
        pytest.skip("populating a mapping needs Linux 5.14")
    descriptor = os.memfd_create("arena")
    os.truncate(descriptor, 512 * PAGE)
    counts = touch(descriptor, 256, 512)
    os.close(descriptor)
    assert sum(counts[:256]) < 8 <= sum(counts[256:])


def test_threads_of_a_host_have_a_core_each_and_wait_for_a_moment_only() -> None:
    core = min(os.sched_getaffinity(0))
    words = thread_environment(cpu_device(f"{core}"))
    assert ("1", f"{{{core}}}", "true") == (words["OMP_NUM_THREADS"], words["OMP_PLACES"], words["OMP_PROC_BIND"])
    assert 1000 <= int(words["GOMP_SPINCOUNT"]) <= 20_000
    assert "OMP_PLACES" not in thread_environment(Device(id="cuda:GPU-1", name="a GPU", kind="cuda"))


SPREADING = """
import os, sys
from kerneltui.runner.__main__ import spread_out
cores = [int(core) for core in sys.argv[1].split(",")]
os.sched_setaffinity(0, cores[:1])
spread_out("")
assert os.sched_getaffinity(0) == set(cores[:1])
spread_out(",".join(f"{{{core}}}" for core in cores))
assert os.sched_getaffinity(0) == set(cores)
spread_out("{99999}")
assert os.sched_getaffinity(0) == set(cores)
"""


def test_a_runner_has_all_cores_of_the_device_whatever_the_judge_s_first_thread_has() -> None:
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    subprocess.run([sys.executable, "-c", SPREADING, cores], check=True, timeout=60)


def test_a_kernel_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cpp"
    path.write_bytes(b"\xef\xbb\xbfint x;\n")
    assert "int x;\n" == judging.read_kernel(path).source == typed.read_kernel(str(path))[0]
