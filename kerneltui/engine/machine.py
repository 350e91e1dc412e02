"""The evaluator that a session's settings ask for, opened on this machine."""

from __future__ import annotations

from typing import Any

from kerneltui.engine.session import Evaluator, Prepared, Session
from kerneltui.evaluator import devices
from kerneltui.evaluator.build_cache import cache_folder
from kerneltui.evaluator.supervisor import Evaluator as Supervisor
from kerneltui.records import Device


def open_evaluator(session: Session) -> Evaluator:
    """An evaluator on the session's devices.

    Raises:
        UsageError: no such device.
        MachineError: the device cannot be used.
    """
    settings = session.settings
    found = devices.find_devices(settings.devices or (settings.device,))

    def say(words: str) -> None:
        session.commit_last(lambda: session.say("engine", "machine", words))

    return Supervisor(session.problem, found, settings=settings, cache=cache_folder(), say=say)


def facts_of(prepared: Prepared) -> dict[str, Any]:
    """What a session keeps of the prepared problem."""
    return {
        "baselines_us": dict(prepared.baselines_us),
        "floor_us": prepared.floor_us,
        "notes": list(prepared.notes),
        "facts": dict(prepared.facts),
        "checks": list(prepared.checks),
    }


def missing_words(device: Device) -> tuple[str, ...]:
    """What a search on the CPU lacks for CUDA kernels, in words."""
    if device.kind != "cpu":
        return ()
    return tuple(f"CPU search: {words}" for words in devices.missing("cuda"))
