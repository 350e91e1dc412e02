"""Devices as the evaluator holds them: each with its judge."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from kerneltui.evaluator.judges import JudgeProcess
from kerneltui.records import Device


@dataclass(slots=True, kw_only=True)
class Bay:
    """A device, its judge, and whether that judge holds the problem."""

    device: Device
    judge: JudgeProcess
    ready: bool = False
    used: bool = False  # whether its judge has met a candidate
    lost: bool = False  # asked no more
    idle: asyncio.TimerHandle | None = None

    async def stop(self) -> None:
        """Let the judge go."""
        self.ready = False
        if self.idle is not None:
            self.idle.cancel()
        await self.judge.stop()


def worker_name(device: Device) -> str:
    """A short word for a row: "gpu 1a2b3c4d", "cpu 0-1"."""
    kind, _, rest = device.id.partition(":")
    return f"gpu {rest.removeprefix('GPU-')[:8]}" if kind == "cuda" else f"cpu {rest}"
