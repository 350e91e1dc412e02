"""A program: `python -I -S confine.py [options] -- argv...` starts argv in a cage and stays as its keeper.

The keeper adopts every orphan below it (subreaper), dies with its parent (taking all below along), ends whatever
argv left running, and ends itself as argv ended. Standard library only, since it starts in front of every compiler
and runner; a program rather than a `preexec_fn`, since the engine has threads.

Options: --parent PID, --report FD (why argv could not be started), --memory BYTES, --file BYTES, --processes N,
--read PATH, --write PATH (Landlock: nothing else of the file system is seen), --no-network.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
LANDLOCK_CREATE_RULESET = 444
LANDLOCK_ADD_RULE = 445
LANDLOCK_RESTRICT_SELF = 446
# Access rights of linux/landlock.h, by the ABI that brought them.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
RIGHTS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
NETWORK_BIND_AND_CONNECT = 3
SCOPE_SOCKETS_AND_SIGNALS = 3
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
CANNOT_START = 126

libc = ctypes.CDLL(None, use_errno=True)


class Options:
    """The command line, read."""

    def __init__(self, words: list[str]) -> None:
        self.numbers: dict[str, int] = {}
        self.read: list[str] = []
        self.write: list[str] = []
        self.network = True
        self.argv: list[str] = []
        words = list(words)
        while words:
            word = words.pop(0)
            if word == "--":
                self.argv = words
                return
            if word == "--no-network":
                self.network = False
            elif word in ("--read", "--write"):
                (self.read if word == "--read" else self.write).append(words.pop(0))
            else:
                self.numbers[word.removeprefix("--")] = int(words.pop(0))


def main(words: list[str]) -> int:
    options = Options(words)
    if not options.argv:
        return CANNOT_START
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if "parent" in options.numbers and os.getppid() != options.numbers["parent"]:
        return CANNOT_START  # the parent died before the line above took effect
    for number in PASSED_ON:
        signal.signal(number, end_everything)
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        become(options, keeper)
    silence(options)
    status = wait_for(child)
    kill_descendants()
    return end_like(status)


def silence(options: Options) -> None:
    """Let go of the pipes, so that they close when the program closes them."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    if "report" in options.numbers:
        os.close(options.numbers["report"])


def become(options: Options, keeper: int) -> None:
    report = options.numbers.get("report")
    try:
        for number in PASSED_ON:
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != keeper:
            os._exit(CANNOT_START)
        set_limits(options.numbers)
        if report is not None:
            os.set_inheritable(report, False)
        program = find_program(options.argv[0])  # PATH may be out of sight below
        if options.read or options.write or not options.network:
            restrict(options.read, options.write, options.network)
        os.execv(program, options.argv)
    except (OSError, ValueError) as error:
        if report is not None:
            os.write(report, str(error).encode(errors="replace"))
    os._exit(CANNOT_START)


def find_program(name: str) -> str:
    """The file that `name` means; `name` itself where there is none, for the error message."""
    if "/" in name:
        return name
    found = (os.path.join(folder, name) for folder in os.get_exec_path())
    return next((path for path in found if os.access(path, os.X_OK) and os.path.isfile(path)), name)


def set_limits(numbers: dict[str, int]) -> None:
    limits = {"memory": resource.RLIMIT_AS, "file": resource.RLIMIT_FSIZE, "processes": resource.RLIMIT_NPROC}
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, limit in limits.items():
        if name in numbers:
            _, hard = resource.getrlimit(limit)
            wanted = numbers[name] if hard == resource.RLIM_INFINITY else min(numbers[name], hard)
            resource.setrlimit(limit, (wanted, wanted))


# --------------------------------------------------------------------------- Landlock


def landlock_abi() -> int:
    """Version of Landlock in this kernel; 0 where there is none."""
    return max(0, int(libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, 1)))


def restrict(read: list[str], write: list[str], network: bool) -> None:
    """From here on only these paths are seen, and with no network nothing is connected to.

    Raises:
        OSError: this kernel cannot.
    """
    abi = landlock_abi()
    if abi < 1:
        raise OSError("this kernel has no Landlock")
    rights = RIGHTS_BY_ABI[min(abi, max(RIGHTS_BY_ABI))] if read or write else 0
    attributes = [rights]
    if abi >= 4:
        attributes.append(0 if network else NETWORK_BIND_AND_CONNECT)
    if abi >= 6:
        attributes.append(SCOPE_SOCKETS_AND_SIGNALS)
    packed = struct.pack(f"={len(attributes)}Q", *attributes)
    ruleset = _checked(libc.syscall(LANDLOCK_CREATE_RULESET, packed, ctypes.c_size_t(len(packed)), 0))
    for path in read:
        _allow(ruleset, path, rights & (EXECUTE | READ_FILE | READ_DIR))
    for path in write:
        _allow(ruleset, path, rights)
    _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there need not be shown
    if not os.path.isdir(path):
        rights &= FILE_RIGHTS
    rule = struct.pack("=Qi", rights, fd)
    _checked(libc.syscall(LANDLOCK_ADD_RULE, ruleset, 1, rule, 0))
    os.close(fd)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


# --------------------------------------------------------------------------- the end


def end_everything(number: int, _frame: object) -> None:
    kill_descendants()
    os._exit(128 + number)


def wait_for(child: int) -> int:
    """Status of the child; orphans that end meanwhile are buried too."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return status


def kill_descendants() -> None:
    for _ in range(100):
        alive = descendants(os.getpid())
        if not alive:
            return
        for number in (signal.SIGSTOP, signal.SIGKILL):  # a frozen fork bomb cannot outrun us
            for pid in alive:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
        time.sleep(0.002)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def descendants(root: int) -> list[int]:
    """Living processes below `root`, as /proc tells."""
    below: dict[int, list[tuple[int, bool]]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            state_and_parent = _state_and_parent(entry)
            if state_and_parent is not None:
                state, parent = state_and_parent
                below.setdefault(parent, []).append((int(entry), state not in "ZX"))
    found: list[int] = []
    queue = list(below.get(root, ()))
    while queue:
        pid, alive = queue.pop()
        if alive:
            found.append(pid)
        # A process whose first thread has ended is shown as a zombie while others still end, and keeps its children.
        queue.extend(below.get(pid, ()))
    return found


def _state_and_parent(pid: str) -> tuple[str, int] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
    except OSError:
        return None  # it has ended
    return (fields[0].decode(), int(fields[1])) if len(fields) > 1 else None


def end_like(status: int) -> int:
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
