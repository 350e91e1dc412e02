"""What a compiler may see, by the best means this machine has.

bubblewrap  a file system of its own: system folders read-only, the build folder, nothing else, no network
Landlock    the same paths by the kernel's word (Linux 5.13)
limits      neither is here: limits and a scrubbed environment only, and the screen says so

`cage` gives (words to put before argv, Sandbox for the keeper); either may be empty.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from kerneltui.errors import MachineError
from kerneltui.evaluator.programs import Sandbox, clean_environment, run_briefly

SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/nix/store", "/gnu/store")
# Dynamic linking, Debian's alternatives, the time zone, and who one is.
SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/sys/vm",
    "/sys/devices/system/cpu",
    "/dev/urandom",
    "/dev/zero",
)
WRITABLE = ("/dev/null",)
TRIAL_S = 10.0


class Level(StrEnum):
    """Means, best first."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    LIMITS = "limits"


WORDS = {
    Level.BUBBLEWRAP: "bubblewrap: system folders read-only, one private folder, no network",
    Level.LANDLOCK: "Landlock: system folders read-only, one private folder, no TCP",
    Level.LIMITS: "limits and a scrubbed environment only: install bubblewrap, or use Linux 5.13 or newer, for more",
}


@functools.cache
def best_level() -> Level:
    """The best means that works here, found by trying."""
    if _bubblewrap_works():
        return Level.BUBBLEWRAP
    return Level.LANDLOCK if _landlock_works() else Level.LIMITS


def level() -> str:
    """The same in words, for the doctor and the trust panel."""
    return WORDS[best_level()]


def cage(
    folder: Path, *, read: Sequence[str] = (), write: Sequence[str] = (), means: Level | None = None
) -> tuple[list[str], Sandbox | None]:
    """(words before argv, Sandbox) under which only system folders, `read` and, writable, `folder` and `write` exist."""
    chosen = means or best_level()
    readable = tuple(path for path in (*SYSTEM, *SYSTEM_FILES, *read) if os.path.exists(path))
    if chosen is Level.BUBBLEWRAP:
        return _bubblewrap(folder, (*SYSTEM, *SYSTEM_FILES[:5], *read), write), None
    if chosen is Level.LANDLOCK:
        return [], Sandbox(read=readable, write=(str(folder), *WRITABLE, *write))
    return [], None


def _bubblewrap(folder: Path, read: Sequence[str], write: Sequence[str]) -> list[str]:
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev"]
    words += ["--tmpfs", "/tmp"]
    for path in read:
        if os.path.islink(path) and path in SYSTEM:
            words += ["--symlink", os.readlink(path), path]
        else:
            words += ["--ro-bind-try", path, path]
    for path in (str(folder), *write):
        words += ["--bind", path, path]
    return [*words, "--chdir", str(folder), "--"]


def _bubblewrap_works() -> bool:
    if shutil.which("bwrap") is None:
        return False
    words, _ = cage(Path("/tmp"), means=Level.BUBBLEWRAP)
    return _succeeds([*words, "true"], None)


def _landlock_works() -> bool:
    return _succeeds(["true"], Sandbox(read=SYSTEM))


def _succeeds(argv: list[str], sandbox: Sandbox | None) -> bool:
    try:
        tried = run_briefly(argv, timeout_s=TRIAL_S, env=clean_environment(), sandbox=sandbox)
    except MachineError:
        return False
    return tried.returncode == 0 and not tried.timed_out
