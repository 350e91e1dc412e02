"""Built libraries on disk, by content: the same question is compiled once, on one machine, by one process.

<cache>/builds/ab/abcdef…/   library.so, kernel.cubin, kernel.ptx, build.log, build.json: appears whole, by one rename
<cache>/locks/abcdef…        held by the process that builds it, with flock: gone when that process is gone
<cache>/incoming/…           on its way in
Private build folders lie in the system's temporary folder, under names that no shell can misread: nvcc uses one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kerneltui.errors import MachineError
from kerneltui.evaluator.toolkits import PREFIX
from kerneltui.records import KernelResources, decode, encode

log = logging.getLogger(__name__)

SAY_AFTER_S = 3.0
POLL_S = 0.02
OLD_S = 600.0  # no build takes so long
OWNER = ".owner"
LIBRARY, CUBIN, PTX, LOG, RECORD = "library.so", "kernel.cubin", "kernel.ptx", "build.log", "build.json"
SAFE_PATH = re.compile(r"[A-Za-z0-9/_.+-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """build.json: what is known of a build besides its files."""

    library_sha256: str
    resources: tuple[KernelResources, ...] = ()
    compile_s: float = 0.0
    sandbox: str = ""


def cache_folder() -> Path:
    """$KERNELTUI_CACHE, else $XDG_CACHE_HOME/kerneltui, else ~/.cache/kerneltui."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("KERNELTUI_CACHE") or Path(root) / "kerneltui")


def place(cache: Path, key: str) -> Path:
    """Where the build of this key lies."""
    return cache / "builds" / key[:2] / key


def load(cache: Path, key: str) -> Stored | None:
    """The build of this key, if it is there and whole; a library that was changed since is thrown away."""
    folder = place(cache, key)
    try:
        stored = decode((folder / RECORD).read_bytes(), Stored)
        whole = hashlib.sha256((folder / LIBRARY).read_bytes()).hexdigest() == stored.library_sha256
    except (OSError, msgspec.MsgspecError):
        whole = False
    if whole:
        return stored
    if folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
    return None


def keep(cache: Path, key: str, built: Path, stored: Stored, text: str) -> None:
    """Move a build into the cache. Another process may have been faster with the same: then theirs stays.

    Raises:
        MachineError: the disk does not take it.
    """
    incoming = cache / "incoming"
    try:
        incoming.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=incoming))
        try:
            for name in (LIBRARY, CUBIN, PTX):
                if (built / name).exists():
                    shutil.copyfile(built / name, folder / name)
            (folder / LOG).write_bytes(text.encode("utf-8", "replace"))
            (folder / RECORD).write_text(encode(stored))
            os.chmod(folder, 0o755)
            _rename(folder, place(cache, key))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise MachineError(f"cannot keep a build in {cache}: {error.strerror or error}") from error


def _rename(folder: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(folder, target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


# --------------------------------------------------------------------------- one builder per key


@contextlib.asynccontextmanager
async def alone(cache: Path, key: str, *, patience_s: float, say: Callable[[str], None]) -> AsyncIterator[None]:
    """Hold the right to build this key, among all tasks and processes; a holder that died holds nothing.

    Past `patience_s` the build goes on beside the other: the same work twice, never a deadlock.
    """
    path = cache / "locks" / key
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = await _lock(path, patience_s, say)
    except OSError as error:
        raise MachineError(f"cannot write to {cache}: {error.strerror or error}") from error
    try:
        yield
    finally:
        if fd is not None:
            path.unlink(missing_ok=True)
            os.close(fd)


async def _lock(path: Path, patience_s: float, say: Callable[[str], None]) -> int | None:
    started, said = time.monotonic(), False
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if _try_lock(fd) and os.fstat(fd).st_nlink:  # the last holder may have unlinked what we opened
            os.ftruncate(fd, 0)
            os.write(fd, str(os.getpid()).encode())
            return fd
        holder = os.pread(fd, 20, 0).decode("ascii", "replace")
        os.close(fd)
        waited_s = time.monotonic() - started
        if waited_s > patience_s:
            say(f"no longer waiting for process {holder or '?'}, which builds the same kernel; building it here too")
            return None
        if waited_s > SAY_AFTER_S and not said:
            said = True
            say(f"waiting for process {holder or '?'}, which builds the same kernel")
        await asyncio.sleep(POLL_S)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # no locks here: build anyway
    return True


# --------------------------------------------------------------------------- private folders


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A folder for one build, removed in every case; those of killed processes are removed by the next.

    Raises:
        MachineError: there is no room for it.
    """
    root = _temporary_root()
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        owner = os.open(folder / OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise MachineError(f"cannot build in {root}: {error.strerror or error}") from error
    try:
        _try_lock(owner)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(owner)


def _temporary_root() -> Path:
    for root in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):
        if SAFE_PATH.fullmatch(root) and os.access(root, os.W_OK | os.X_OK):
            return Path(root)
    raise MachineError("no writable folder for builds among TMPDIR, /tmp, /var/tmp and /dev/shm")


def sweep(cache: Path) -> int:
    """Remove what killed processes left: build folders nobody owns, half-moved builds; how many."""
    incoming = cache / "incoming"
    abandoned = [folder for folder in _temporary_root().glob(f"{PREFIX}*") if _is_abandoned(folder)]
    if incoming.is_dir():
        abandoned += [folder for folder in incoming.iterdir() if _age_s(folder) > OLD_S]
    for folder in abandoned:
        shutil.rmtree(folder, ignore_errors=True)
    return len(abandoned)


def _is_abandoned(folder: Path) -> bool:
    try:
        owner = os.open(folder / OWNER, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return _age_s(folder) > OLD_S
    except OSError:
        return False  # another user's
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(owner)
    return _age_s(folder) > 5  # a new folder may not have locked its file yet


def _age_s(folder: Path) -> float:
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0  # gone meanwhile
