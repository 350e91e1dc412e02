"""The judge's memory on a host, mapped from a descriptor."""

from __future__ import annotations

import mmap
import os

MADV_POPULATE_WRITE = 23


def map_arena(descriptor: int, size_bytes: int, sets_bytes: int) -> mmap.mmap:
    """The whole block; its input sets are faulted in now, so that no timed call does, and the rest stays untouched.

    A first touch costs a quarter of a microsecond a page: a tenth of the time of a matrix product on 512 x 512.
    """
    memory = mmap.mmap(descriptor, size_bytes, flags=mmap.MAP_SHARED)
    os.close(descriptor)
    try:
        memory.madvise(MADV_POPULATE_WRITE, 0, sets_bytes)
    except OSError:
        pass  # older than Linux 5.14: the warm-up does it
    return memory
