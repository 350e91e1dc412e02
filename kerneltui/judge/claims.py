"""What a slice claims, held against the judge's clock and the kernel's counts.

Slice                  one slice: what was claimed, what passed
claim_doubt            a claim that cannot be
fastest_us             the fastest of several
is_short, short_doubt  more passed than was claimed: once, in nearly all slices
floor_doubt            less was claimed than the kernel counted
busy_s, waiting_s, run_s   a process's processor time, as the kernel says
delays_s, taken_s          how long its threads waited for a core
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

SLACK_SHARE = 0.05
LIES_LEAST = 5  # slices, before the word "all" means anything
LIE_SHARE = 0.15
FLOOR_SHARE = 0.97
FLOORS_LEAST = 3  # slices, before their middle means anything
ASLEEP_S = 0.002
TAKEN_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One slice: what was claimed, and the judge's own clock around it."""

    claimed_s: float
    wall_s: float
    launches: int
    waited_s: float = 0.0  # time in which either process was ready and had no core, as the kernel says
    floor_s: float = 0.0  # what must have been claimed at least, by the kernel's count of processor time; 0: unknown
    taken_s: float = 0.0  # for which others had the core that one of its threads was waiting for, as the kernel says
    waking_s: float = 0.0  # what its commands cost besides the launches: waking up on both sides of a pipe

    @property
    def each_us(self) -> float:
        """Time of one launch."""
        return self.claimed_s / self.launches * 1e6


def claim_doubt(found: Slice) -> str:
    """Why a claim cannot be true; "" when it can.

    A claim above the judge's own clock is impossible; one far below it says that the work was done elsewhere.
    """
    claimed = found.claimed_s
    if not math.isfinite(claimed) or claimed <= 0:
        return f"a slice of {found.launches} launches claims {claimed:g} s, which no clock can measure"
    if claimed > found.wall_s * 1.001 + 1e-6:
        return f"a slice claims {claimed * 1e3:.3f} ms, yet only {found.wall_s * 1e3:.3f} ms passed"
    return ""


def fastest_us(slices: Sequence[Slice]) -> float | None:
    """Time of one launch in the fastest; None where a claim cannot be true."""
    return None if any(map(claim_doubt, slices)) else min(found.each_us for found in slices)


def unclaimed_s(found: Slice, slack_s: float) -> float:
    """By how much the judge's clock ran on longer than was claimed, beyond what waking up and waiting explain."""
    return found.wall_s - found.claimed_s - found.waited_s - max(slack_s, found.waking_s)


def is_short(found: Slice, slack_s: float) -> bool:
    """Whether the judge's clock ran on much longer than was claimed: a disturbance, or a lie. It counts for nothing."""
    return unclaimed_s(found, slack_s) > SLACK_SHARE * found.wall_s


def busy_s(pid: int) -> float:
    """Processor time that a process has used so far, all threads together, ended ones included."""
    # Linux numbers the clock of a process from its id: clock_getcpuclockid(3) does the same.
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0  # gone; asking it anything will say so


def waiting_s(pid: int) -> float:
    """How long a process's first thread has waited for a core so far; 0 where the kernel does not say."""
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def delays_s(pid: int) -> dict[int, float]:
    """How long each thread of a process has waited for a core so far, by thread; nothing where the kernel does not say."""
    found = {}
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with (
                contextlib.suppress(OSError, IndexError, ValueError),
                open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as file,
            ):
                found[int(thread)] = int(file.read().split()[1]) / 1e9
    except OSError:
        pass
    return found


def taken_s(before: dict[int, float], after: dict[int, float], *, ours: int = 0, ours_s: float = 0.0) -> float:
    """The most that any thread has waited in between; the judge itself had the core of thread `ours` for `ours_s`.

    The most, since work that is shared among threads is done when the last of them is.
    """
    waits = ((thread, waited - before.get(thread, 0.0)) for thread, waited in after.items())
    return max((waited - ours_s * (thread == ours) for thread, waited in waits), default=0.0)


def run_s(pid: int) -> float:
    """Processor time of a process's first thread so far; 0 where the kernel does not say.

    The kernel brings it up to date when the thread sleeps, as it does as soon as it has answered.
    """
    end = time.perf_counter() + ASLEEP_S
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as state, open(f"/proc/{pid}/schedstat", "rb") as file:
            while state.read(4096).rpartition(b") ")[2][:1] == b"R" and time.perf_counter() < end:
                state.seek(0)
            return int(file.read().split()[0]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def is_taken(found: Slice) -> bool:
    """Whether others had its cores for so long that it says nothing of how fast it is."""
    return found.taken_s > TAKEN_SHARE * found.wall_s


def short_doubt(slices: Sequence[Slice], slack_s: float) -> str:
    """Whether all slices but a tenth claim less than passed: load on the machine comes and goes, a lie does not.

    The median would condemn honest candidates on a busy machine, and turns shorter than a wake-up are bounded by this
    clock hardly at all; there the kernel's count of processor time is what finds slow clocks, see `floor_doubt`.
    """
    if len(slices) < LIES_LEAST:
        return ""
    ranked = sorted(slices, key=lambda found: unclaimed_s(found, slack_s) / found.wall_s)
    best = ranked[max(1, len(slices) // 10)]  # a lie told in all slices but one is still a lie
    if unclaimed_s(best, slack_s) < LIE_SHARE * best.wall_s:
        return ""
    return (
        f"nearly all of {len(slices)} slices claim less than passed: at best {best.claimed_s * 1e3:.3f} ms of "
        f"{best.wall_s * 1e3:.3f} ms by the judge's clock"
    )


def floor_doubt(slices: Sequence[Slice]) -> str:
    """Whether slices typically claim less than the processor time that the kernel counted."""
    known = sorted((found for found in slices if found.floor_s > 0), key=lambda found: found.waited_s / found.wall_s)
    if len(known) < FLOORS_LEAST:
        return ""
    # Waiting for a core hides a slow clock: the calmer half is looked at.
    calm = sorted(known[: max(FLOORS_LEAST, len(known) // 2)], key=lambda found: found.claimed_s / found.floor_s)
    typical = calm[len(calm) // 2]
    if typical.claimed_s >= FLOOR_SHARE * typical.floor_s:
        return ""
    return (
        f"its clock is slow: typically {typical.claimed_s * 1e3:.3f} ms are claimed where the kernel counted "
        f"at least {typical.floor_s * 1e3:.3f} ms"
    )


def together(slices: Sequence[Slice]) -> Slice:
    """Several as one."""
    return Slice(
        claimed_s=sum(found.claimed_s for found in slices),
        wall_s=sum(found.wall_s for found in slices),
        launches=sum(found.launches for found in slices),
        waited_s=sum(found.waited_s for found in slices),
        floor_s=sum(found.floor_s for found in slices),
        taken_s=sum(found.taken_s for found in slices),
        waking_s=sum(found.waking_s for found in slices),
    )
