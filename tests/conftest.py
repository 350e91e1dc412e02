"""Which tests may run beside each other."""

from __future__ import annotations

import pytest

# Each of these asks a judge, which takes the whole processor and looks at the clock; they share one worker.
JUDGED = {
    "test_exploits",
    "test_faults",
    "test_main_job",
    "test_session_with_authors",
    "test_spares",
    "test_supervisor",
}
# A clock that is slow by a tenth shows only where the candidate does not wait for a processor as long.
ALONE = ("n03_walk_to_the_clock", "n10_slow_clock_by_a_tenth")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        file = item.path.stem
        item.add_marker(pytest.mark.xdist_group("judged" if file in JUDGED else file))
        if any(name in item.name for name in ALONE):
            item.add_marker(pytest.mark.alone)
