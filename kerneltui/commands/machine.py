"""doctor, reset."""

from __future__ import annotations

import os
import shutil
import sys

import click

from kerneltui.commands.output import print_json, printable
from kerneltui.records import Check, CheckResult
from kerneltui.store import filesystem_kind, sessions_folder

# Leave the alternate screen; mouse, focus, paste and Kitty key reports off; cursor on; attributes and scroll region reset.
RESTORE_TERMINAL = (
    "\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1004l\x1b[?2004l\x1b[?2026l"
    "\x1b[<u\x1b[?25h\x1b[r\x1b[0m"
)


def terminal_checks() -> list[Check]:
    """What the terminal offers."""
    term = os.environ.get("TERM", "")
    colour = os.environ.get("COLORTERM", "")
    checks = [
        Check(
            name="terminal", result=CheckResult.NOTE, detail=f"TERM={term or '(unset)'} COLORTERM={colour or '(unset)'}"
        )
    ]
    if os.environ.get("TMUX"):
        where = shutil.which("tmux") or "not in PATH"
        checks.append(
            Check(name="tmux", result=CheckResult.NOTE, detail=f"inside tmux ({where}); copying uses load-buffer")
        )
    if os.environ.get("NO_COLOR"):
        checks.append(Check(name="colour", result=CheckResult.NOTE, detail="NO_COLOR is set: no colours are sent"))
    return checks


def folder_check() -> Check:
    """Whether sessions can live where they would go."""
    root = sessions_folder()
    place = root if root.exists() else root.resolve().parent
    kind = filesystem_kind(place)
    writable = os.access(place, os.W_OK)
    detail = (
        f"{root} on {kind or 'an unknown filesystem'}{'' if writable else ', not writable: set KERNELTUI_SESSIONS'}"
    )
    return Check(name="sessions folder", result=CheckResult.PASS if writable else CheckResult.FAIL, detail=detail)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def doctor(as_json: bool) -> None:
    """What this machine has: devices, compilers, sandbox, terminal; and what is missing for what."""
    from kerneltui.evaluator.devices import doctor as device_checks
    from kerneltui.evaluator.devices import list_devices, missing

    devices = list_devices()
    checks = [*device_checks(), folder_check(), *terminal_checks()]
    lacking = {kind: missing(kind) for kind in ("cuda", "cpu")}
    if as_json:
        print_json({"devices": devices, "checks": checks, "missing": lacking})
    else:
        for device in devices:
            click.echo(printable(f"device   {device.id}  {device.name}  {device.architecture}  {device.toolkit}"))
        for check in checks:
            click.echo(printable(f"{check.result:8} {check.name}: {check.detail}"))
        for kind, words in lacking.items():
            for line in words:
                click.echo(printable(f"missing  for {kind}: {line}"))
    sys.exit(0 if devices else 2)


@click.command()
def reset() -> None:
    """Restore a terminal that a killed program left broken: mouse reports, alternate screen, cursor, echo."""
    import subprocess

    try:
        with open("/dev/tty", "w", encoding="ascii") as terminal:
            terminal.write(RESTORE_TERMINAL)
            terminal.flush()
            subprocess.run(["stty", "sane"], stdin=open("/dev/tty"), check=False)  # noqa: SIM115
    except OSError:
        sys.stdout.write(RESTORE_TERMINAL)
