"""Locks on devices, shared by every session and every `eval` of this user on the machine.

A lock is a file that its holder has locked: it goes with the process, however that ends.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from kerneltui.errors import MachineError
from kerneltui.evaluator.devices import device_cores
from kerneltui.records import Device

ASK_AGAIN_S = 0.05
PATIENCE_S = 2.0  # a wait longer than this is said aloud


def lock_folder() -> Path:
    """Where the locks lie: gone with the login, or in /tmp under the user's number."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = (
        Path(runtime) / "kerneltui"
        if runtime and os.access(runtime, os.W_OK)
        else Path(f"/tmp/kerneltui-{os.getuid()}")
    )
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise MachineError(f"{folder} belongs to somebody else; set XDG_RUNTIME_DIR to a folder of your own")
    except OSError as error:
        raise MachineError(f"cannot make {folder} for device locks: {error.strerror}") from error
    return folder


def lock_names(device: Device) -> list[str]:
    """A GPU has one lock; a CPU device one for each core, since two devices may share some. Sorted: no deadlock."""
    if device.kind == "cpu":
        return [f"core-{core:04}.lock" for core in sorted(device_cores(device))]
    return [device.id.replace(":", "-").replace("/", "-") + ".lock"]


@asynccontextmanager
async def alone_on(device: Device, say: Callable[[str], None]) -> AsyncIterator[None]:
    """Hold the device; `say` hears of a wait that lasts, and for what."""
    folder = lock_folder()
    held: list[int] = []
    try:
        for name in lock_names(device):
            held.append(await take(folder / name, device, say))
        yield
    finally:
        for descriptor in reversed(held):
            os.close(descriptor)


async def take(path: Path, device: Device, say: Callable[[str], None]) -> int:
    """The locked file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise MachineError(f"cannot open the device lock {path}: {error.strerror}") from error
    started, said = time.monotonic(), False
    try:
        while not try_lock(descriptor):
            if not said and time.monotonic() - started > PATIENCE_S:
                holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
                say(f"waiting for {device.name} ({device.id}): process {holder or 'of another session'} holds {path}")
                said = True
            await asyncio.sleep(ASK_AGAIN_S)
    except BaseException:
        os.close(descriptor)
        raise
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
