"""What a runner may do, laid down before it loads a candidate: limits, another user, forbidden system calls.

Each step that this machine does not allow is reported by name, never silently left out.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2
CLONE_THREAD = 0x00010000
EPERM, ENOSYS = 1, 38
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
CAPABILITIES_3 = 0x20080522  # version of the interface: 64 capabilities in two words

# Architecture word of the kernel's audit interface, then numbers of what is refused. Threads stay allowed: OpenMP.
CALLS = {
    "x86_64": (
        0xC000003E,
        {"clone": 56, "clone3": 435},
        # fork vfork execve execveat ptrace process_vm_readv/writev socket socketpair unlink unlinkat rename renameat
        # renameat2 bpf perf_event_open userfaultfd io_uring_setup mount setns unshare pidfd_getfd
        (57, 58, 59, 322, 101, 310, 311, 41, 53, 87, 263, 82, 264, 316, 321, 298, 323, 425, 165, 308, 272, 438),
    ),
    "aarch64": (
        0xC00000B7,
        {"clone": 220, "clone3": 435},
        (221, 281, 117, 270, 271, 198, 199, 35, 38, 276, 280, 241, 282, 425, 40, 268, 97, 438),
    ),
}
# What no compiler needs either: tracing and reading other processes, devices of the kernel's own, other namespaces.
# ptrace process_vm_readv/writev bpf perf_event_open userfaultfd io_uring_setup mount setns unshare pidfd_getfd kcmp
NOSY_CALLS = {
    "x86_64": (101, 310, 311, 321, 298, 323, 425, 165, 308, 272, 438, 312),
    "aarch64": (117, 270, 271, 280, 241, 282, 425, 40, 268, 97, 438, 272),
}


def die_with(parent: int) -> None:
    """Be killed when the judge dies, even if it dies before this call. A parent of 0 is a tool in between."""
    libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent and os.getppid() != parent:
        os._exit(1)


def let_nobody_in() -> None:
    """Let no process of the same user read, write or trace this one: a candidate's may be one. As the judge does for itself."""
    libc().prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def limit(*, memory_bytes: int | None, processes: int | None, file_bytes: int) -> list[str]:
    """No core files, a cap on address space and on written files; what could not be set, in words."""
    missing: list[str] = []
    wanted = [(resource.RLIMIT_CORE, 0, "core files"), (resource.RLIMIT_FSIZE, file_bytes, "file size")]
    if memory_bytes is not None:
        wanted.append((resource.RLIMIT_AS, memory_bytes, "address space"))
    if processes is not None:
        wanted.append((resource.RLIMIT_NPROC, processes, "processes"))
    for kind, value, name in wanted:
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(kind, (value, value))
        except (ValueError, OSError) as error:
            missing.append(f"no limit on {name}: {error}")
    return missing


def drop_capabilities() -> list[str]:
    """Of root, only the name: it can then not read a process that does not let itself be read."""
    if os.geteuid() != 0:
        return []
    header = struct.pack("Ii", CAPABILITIES_3, 0)
    if libc().capset(header, bytes(24)) != 0:
        return [f"root with its capabilities: {os.strerror(ctypes.get_errno())}"]
    return []


def anybody_can_reach(paths: Iterable[str]) -> bool:
    """Whether another user could read what lies there: a home folder is often closed to others."""
    folders = {str(above) for path in paths for above in (Path(path), *Path(path).parents)}
    return all(os.stat(folder).st_mode & stat.S_IXOTH for folder in folders if os.path.isdir(folder))


def become(user: int) -> list[str]:
    """Another user than the judge's, where this process is root: it can then neither signal nor read the judge."""
    if os.geteuid() != 0:
        return ["same user as the judge"]
    parent = os.getppid()
    try:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    except OSError as error:
        return [f"still root: {error}"]
    # The change of user hid /proc/self from ourselves, through which the library is opened, and undid `die_with`.
    libc().prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    return []


def forbid_calls() -> list[str]:
    """A seccomp filter: no new process, no other program, no network, no tracing, no deleting."""
    numbers = CALLS.get(platform.machine())
    if numbers is None:
        return [f"no system call filter for {platform.machine()}"]
    return lay_filter(filter_program(*numbers))


def forbid_nosy_calls() -> list[str]:
    """The same for a process that may compile: it starts programs, and looks into nobody else."""
    machine = platform.machine()
    if machine not in CALLS:
        return [f"no system call filter for {machine}"]
    return lay_filter(plain_program(CALLS[machine][0], NOSY_CALLS[machine]))


def lay_filter(program: bytes) -> list[str]:
    """Lay a filter over this process and all that it starts."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    library = libc()
    if library.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return [f"no system call filter: {os.strerror(ctypes.get_errno())}"]
    if library.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_char_p(header), 0, 0) != 0:
        return [f"no system call filter: {os.strerror(ctypes.get_errno())}"]
    return []


def plain_program(architecture: int, refused: tuple[int, ...]) -> bytes:
    """Classic BPF that refuses these calls and another architecture's numbering, see `filter_program`."""
    load, equal, end = 0x20, 0x15, 0x06
    body = [(load, 0, 0, 4), (equal, 1, 0, architecture), (end, 0, 0, ERRNO | EPERM), (load, 0, 0, 0)]
    body += [(equal, len(refused) - index, 0, number) for index, number in enumerate(refused)]
    body += [(end, 0, 0, ALLOW), (end, 0, 0, ERRNO | EPERM)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in body)


def filter_program(architecture: int, clones: dict[str, int], refused: tuple[int, ...]) -> bytes:
    """Classic BPF over struct seccomp_data: number at 0, architecture at 4, first argument at 16.

    Every jump is forward by a count of instructions; the three ends stand last: allow, EPERM, ENOSYS.
    """
    load, equal, is_set, end = 0x20, 0x15, 0x45, 0x06
    body: list[tuple[int, int, int, int]] = []
    checks = len(refused)
    body.append((load, 0, 0, 4))
    body.append((equal, 1, 0, architecture))
    body.append((end, 0, 0, ERRNO | EPERM))  # another architecture's numbering would slip past the list
    body.append((load, 0, 0, 0))
    # from here: clone3, clone (3 instructions), `checks` comparisons, allow, EPERM, ENOSYS
    body.append((equal, 3 + checks + 2, 0, clones["clone3"]))
    body.append((equal, 0, 2, clones["clone"]))
    body.append((load, 0, 0, 16))
    body.append((is_set, checks, checks + 1, CLONE_THREAD))
    for index, number in enumerate(refused):
        body.append((equal, checks - index, 0, number))
    body += [(end, 0, 0, ALLOW), (end, 0, 0, ERRNO | EPERM), (end, 0, 0, ERRNO | ENOSYS)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in body)
