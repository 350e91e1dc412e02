"""Which tests may run beside each other, and on which cores."""

from __future__ import annotations

import os

import pytest

# A clock that is slow by a tenth shows only where the candidate does not wait for a processor; two devices need two cores.
ALONE = ("n03_walk_to_the_clock", "n10_slow_clock_by_a_tenth", "two_devices_share_the_work")


def pytest_configure(config: pytest.Config) -> None:
    """A share of the cores for each worker, as a device of its own: no judge waits for another's, nor is disturbed by it."""
    words = getattr(config, "workerinput", None)
    if words is None:
        return
    cores, workers = sorted(os.sched_getaffinity(0)), words["workercount"]
    if len(cores) >= workers:
        os.sched_setaffinity(0, cores[int(words["workerid"].removeprefix("gw")) :: workers])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.xdist_group(item.path.stem))
        if any(name in item.name for name in ALONE):
            item.add_marker(pytest.mark.alone)
