"""Which tests may run beside each other: nothing that is timed beside anything else that is timed."""

from __future__ import annotations

import pytest

# Each of these keeps a processor busy and looks at the clock, or drives the whole program.
TIMED = {
    "test_exploits",
    "test_faults",
    "test_kernels_cpp",
    "test_main_job",
    "test_session_with_authors",
    "test_supervisor",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem in TIMED:
            item.add_marker(pytest.mark.timed)
