"""nvcc's own commands, with the host's half and the device's half at the same time: a third less waiting.

    preprocessor -> cudafe++                       (host) \\
                                                           host compiler -> device linker -> linker
    preprocessor -> cicc -> ptxas -> fatbinary   (device) /

nvcc runs the two halves one after the other, also with `--threads`. The commands are those that `nvcc --dryrun` names,
word for word but for one: both halves need the same name for what is private to the file, which cudafe++ would write
down when it is done. Here it is written before. Anything unknown in the plan means plain nvcc, which does the same.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kerneltui.errors import MachineError
from kerneltui.evaluator.programs import clean_environment, run_briefly

DRYRUN_S = 20.0
SOURCE = "kernel.cu"
IDENTITY = "kernel.module_id"
DEFINES_HERE = "KERNELTUI_DEFINES=HERE"
HALVES = ("gcc", "cudafe++", "gcc", "cicc", "ptxas", "fatbinary")
HOST_PARTS = 2
SETTING = re.compile(r"(\w+)=(.*)")
EXPORTED = ("CICC_PATH", "NVVMIR_LIBRARY_DIR", "LD_LIBRARY_PATH", "PATH", "_NVVM_BRANCH_")
MAKES_IDENTITY = " --gen_module_id_file "
NAMES_IDENTITY = f'--module_id_file_name "./{IDENTITY}"'
# nvcc says in these words that a part of it was killed; the log is read for them.
FRAME = """\
{settings}
part() {{ # status, program
  if [ "$1" -gt 128 ] && [ "$1" -lt 192 ]; then echo "nvcc error   : '$2' died due to signal $(($1 - 128))" >&2; fi
  return "$1"
}}
host() {{
{host}
}}
device() {{
{device}
}}
finish() {{
{rest}
}}
host > host.log 2>&1 &
host=$!
device > device.log 2>&1 &
device=$!
wait $host
status=$?
cat host.log >&2
# Both halves read the same source and find the same mistakes: they are said once.
[ $status -eq 0 ] || exit $status
wait $device
status=$?
cat device.log >&2
[ $status -eq 0 ] || exit $status
finish
"""


@functools.lru_cache(maxsize=64)
def script(compiler: str, words: tuple[str, ...]) -> str | None:
    """A shell script that does what `nvcc WORDS` does for `kernel.cu`; None where that is not known.

    `words` must hold `-D` + `DEFINES_HERE` where the candidate's defines belong: they differ while all else stays.
    """
    with tempfile.TemporaryDirectory(prefix="kerneltui-plan-") as folder:
        here = os.path.realpath(folder)
        Path(here, SOURCE).touch()  # nvcc names it by its whole path only where it is
        Path(here, "tmp").mkdir()
        environment = clean_environment({"TMPDIR": "tmp"})
        try:
            asked = run_briefly([compiler, *words, "--dryrun"], timeout_s=DRYRUN_S, env=environment, cwd=here)
        except MachineError:
            return None
    plan = asked.text.replace(f'"{here}/{SOURCE}"', f'"$PWD/{SOURCE}"')
    return script_of(plan) if asked.returncode == 0 and not asked.timed_out and here not in plan else None


def script_of(dryrun: str) -> str | None:
    """The script for what `nvcc --dryrun` printed; None when it is no plan of the known kind."""
    lines = [line[3:].strip() for line in dryrun.splitlines() if line.startswith("#$ ")]
    found = [setting for line in lines if (setting := SETTING.fullmatch(line))]
    settings = {setting[1]: setting[2] for setting in found}
    commands = [line for line in lines if not SETTING.fullmatch(line) and not line.startswith("rm ")]
    if not is_known(commands):
        return None
    commands[1] = commands[1].replace(MAKES_IDENTITY, " ")
    exported = [f"export {name}={shlex.quote(settings[name])}" for name in EXPORTED if name in settings]
    parts = [f"  {command} || part $? {program(command)} || return" for command in commands]
    halves, rest = parts[: len(HALVES)], parts[len(HALVES) :]
    return FRAME.format(
        settings="\n".join(exported),
        host="\n".join(halves[:HOST_PARTS]),
        device="\n".join(halves[HOST_PARTS:]),
        rest="\n".join(rest),
    )


def is_known(commands: Sequence[str]) -> bool:
    """Whether the two halves are what they are taken for, and share no file but the name of what is private."""
    programs = tuple(map(program, commands))
    if programs[: len(HALVES)] != HALVES or programs[len(HALVES) : len(HALVES) + 1] != ("gcc",):
        return False
    front, middle = commands[1], commands[3]
    return (
        MAKES_IDENTITY in front
        and NAMES_IDENTITY in front
        and NAMES_IDENTITY in middle
        and MAKES_IDENTITY not in middle
        and any(DEFINES_HERE in command for command in commands)
    )


def program(command: str) -> str:
    """The name of what a command runs."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    name = os.path.basename(words[0]) if words else ""
    return "gcc" if re.fullmatch(r"(.*-)?(gcc|g\+\+|cc|c\+\+|clang|clang\+\+)(-[\d.]+)?", name) else name


def with_defines(text: str, defines: Sequence[str]) -> str:
    """The script for these `NAME=VALUE`; none of them holds what a shell could misread (`flags.DEFINE_VALUE`)."""
    return re.sub(rf'-D ?"?{DEFINES_HERE}"?', lambda found: " ".join(f'-D "{define}"' for define in defines), text)


def identity(digest: str, function: str) -> bytes:
    """The name of what is private to the file, in nvcc's own form; other files have others."""
    return f"_{digest[:8]}_{len(SOURCE)}_{SOURCE.replace('.', '_')}_{function}".encode()
