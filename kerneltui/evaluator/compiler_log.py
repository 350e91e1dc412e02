"""What compilers say: the first real error in clean words, whether memory was the cause, resources per kernel."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence

from kerneltui.records import KernelResources

MESSAGE_LIMIT = 300
END_OF_SOURCE = "at the end of the source: "
HEAD, TAIL, LINE = 2_000_000, 200_000, 800  # characters
# In order: the first pattern that matches anywhere gives the message.
ERRORS = (
    re.compile(
        r"^(?:[^\s:(]*/)?(?P<file>[\w.+-]+)[:(](?P<line>\d+)\)?(?::\d+)?: (?:fatal )?(?:catastrophic )?(?:error|erreur|Fehler|errore): (?P<text>.+)$",
        re.M,
    ),
    re.compile(r"^(?P<file>[\w./+-]+)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.+)$", re.M),
    re.compile(r"^(?P<end>At end of source): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.+)$", re.M),
    re.compile(r"^ptxas .*?(?:error|fatal)\s*: (?P<text>.+)$", re.M),
    re.compile(r"(?P<text>undefined (?:reference to|symbol:?) .+)$", re.M),
    re.compile(r"(?P<text>multiple definition of .+)$", re.M),
    re.compile(r"^nvlink (?:error|fatal)\s*: (?P<text>.+)$", re.M),
    re.compile(
        r"^(?:nvcc|cicc|cudafe\+\+|collect2|c\+\+|g\+\+|clang(?:\+\+)?|cc1plus)[\w .:+-]*?(?:error|fatal)\s*: (?P<text>.+)$",
        re.M,
    ),
    re.compile(r"(?P<text>internal compiler error.*)$", re.M),
    re.compile(r"^[^\n:]*\.s:\d+: Error: (?P<text>.+)$", re.M),
    re.compile(r"^.*?\b(?:error|erreur|Fehler|fatal)\b ?: (?P<text>.+)$", re.M),
)
# Whole sentences of compilers: sources quote words such as bad_alloc.
OUT_OF_MEMORY = re.compile(
    r"^[\w+./-]+: out of memory allocating \d+ bytes|^virtual memory exhausted|^LLVM ERROR: out of memory|"
    r"^[\w+./-]+: fatal error: .*Cannot allocate memory|^ptxas fatal\s*: Memory allocation failure|"
    r"^terminate called after throwing an instance of 'std::bad_alloc'|^[\w+./: -]*memory exhausted$|"
    r"^(?:\S+: )?catastrophic error: out of memory|^Fatal: out of memory",
    re.M,
)
KILLED = re.compile(r"died due to signal 9|Killed signal terminated program|signal 9 \(Kill signal\)|\bKilled\b")

ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)'")
PROPERTIES = re.compile(r"Function properties for (?P<name>\S+)")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
CONSTANT = re.compile(r"(\d+) bytes cmem\[\d+\]")


def first_error(log: str) -> str:
    """The first real error, in one line; "" when the log names none."""
    searched = _ends(log)
    for pattern in ERRORS:
        found = pattern.search(searched)
        if found:
            return _clean(found.groupdict())
    return ""


def _ends(log: str) -> str:
    """Where the first error and the last words stand: neither 50 MB nor lines without end are searched whole."""
    ends = log if len(log) <= HEAD + TAIL else f"{log[:HEAD]}\n{log[-TAIL:]}"
    return "\n".join(line[:LINE] for line in ends.split("\n"))


def _clean(parts: dict[str, str | None]) -> str:
    text = re.sub(r"\s+", " ", parts["text"] or "").strip()
    text = text.replace("‘", "'").replace("’", "'")
    text = re.sub(r"'(_Z\w+)'", lambda found: f"'{demangle([found.group(1)])[found.group(1)]}'", text)
    text = re.sub(r"\b0x([0-9a-f]+)(?= (?:bytes|max)\b)", lambda found: f"{int(found.group(1), 16):,}", text)
    place = f"line {parts['line']}: " if parts.get("line") else ""
    file = parts.get("file") or ""
    if place and not re.search(r"(^|/)kernel\.(cu|cpp)$", file):
        place = f"{file} {place}"
    if parts.get("end"):
        place = END_OF_SOURCE
    message = f"{place}{text}"
    return message if len(message) <= MESSAGE_LIMIT else f"{message[: MESSAGE_LIMIT - 1]}…"


def names_our_source(message: str) -> bool:
    """Whether a message of `first_error` blames a line or a name of the source, not the compiler's own parts."""
    return re.match(rf"(\S+ )?line \d+: |{END_OF_SOURCE}|undefined |multiple definition ", message) is not None


def blames_a_kernel(log: str) -> bool:
    """Whether ptxas has an error of its own: too much shared memory, an instruction that this device does not have."""
    return re.search(r"^ptxas (?:\S+ )?error\b|^ptxas [^\n]*; error\b", _ends(log), re.M) is not None


def ran_out_of_memory(log: str) -> bool:
    return OUT_OF_MEMORY.search(_ends(log)) is not None


def was_killed(returncode: int, log: str) -> bool:
    """Whether compiler or a part of it ended by SIGKILL, which none of ours sends before the deadline."""
    return returncode == -9 or KILLED.search(_ends(log)) is not None


# --------------------------------------------------------------------------- ptxas -v


def kernel_resources(log: str) -> tuple[KernelResources, ...]:
    """Figures of every kernel that `ptxas -v` described, in its order."""
    figures: dict[str, dict[str, int]] = {}
    entry = described = ""  # the kernel being compiled, and the function that the next frame line is about
    for line in _ends(log).split("\n"):
        if started := ENTRY.search(line):
            entry = described = started.group("name")
            figures[entry] = {}
        elif started := PROPERTIES.search(line):
            described = started.group("name")
        elif entry and (USED.search(line) or described == entry):
            figures[entry].update(_figures(line))
    names = demangle(figures)
    return tuple(
        KernelResources(
            name=names[mangled],
            registers=found.get("registers"),
            spill_bytes=found.get("spill"),
            stack_bytes=found.get("stack"),
            shared_bytes=found.get("shared"),
            constant_bytes=found.get("constant"),
        )
        for mangled, found in figures.items()
    )


def _figures(line: str) -> dict[str, int]:
    frame = FRAME.search(line)
    if frame:
        stack, stores, loads = map(int, frame.groups())
        return {"stack": stack, "spill": stores + loads}
    used = USED.search(line)
    if not used:
        return {}
    shared = SHARED.search(line)
    constant = CONSTANT.findall(line)
    found = {"registers": int(used.group(1)), "shared": int(shared.group(1)) if shared else 0}
    return found | ({"constant": sum(map(int, constant))} if constant else {})


def demangle(names: Iterable[str]) -> dict[str, str]:
    """Readable kernel names without their arguments."""
    mangled = list(names)
    readable = demangle_fully(mangled)
    return {
        name: _without_arguments(long) if long != name else _base_name(name)
        for name, long in zip(mangled, readable, strict=True)
    }


def demangle_fully(names: Sequence[str]) -> list[str]:
    """C++ declarations of mangled names; the mangled names where no c++filt is here."""
    tool = shutil.which("c++filt") or shutil.which("cu++filt") or shutil.which("llvm-cxxfilt")
    if not names or tool is None:
        return list(names)
    try:
        answer = subprocess.run([tool], input="\n".join(names).encode(), capture_output=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return list(names)
    lines = answer.stdout.decode("utf-8", "replace").splitlines()
    return lines if len(lines) == len(names) else list(names)


def _base_name(mangled: str) -> str:
    """`_Z4copyPKfPf` -> `copy`; anything less plain stays as it is."""
    found = re.match(r"_Z(\d+)", mangled)
    if not found:
        return mangled
    start, length = found.end(), int(found.group(1))
    return mangled[start : start + length] or mangled


def _without_arguments(readable: str) -> str:
    """`void k<float>(float const*, float*)` -> `k<float>`."""
    depth = 0
    for index in range(len(readable) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(readable[index], 0)
        if readable[index] == "(" and depth == 0:
            head = readable[:index]
            return (
                head.removeprefix("void ")
                if head and not head.endswith(("operator", "(anonymous namespace)"))
                else readable
            )
    return readable
