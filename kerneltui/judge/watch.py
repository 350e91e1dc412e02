"""What NVML says of a GPU while pairs are timed."""

from __future__ import annotations

import logging
from typing import Any

log = logging.getLogger(__name__)

THROTTLES = {  # bits of NVML's reasons that make a pair unlike the others
    0x8: "clock slowed by hardware",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}


class Watch:
    """What NVML says while pairs are taken; everything it withholds is left out, never 0."""

    def __init__(self, uuid: str) -> None:
        self.nvml: Any = None
        self.handle: Any = None
        self.known: set[int] = set()
        self.counted = 0
        try:
            import pynvml
        except ImportError:
            return
        try:
            pynvml.nvmlInit()
            self.handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            self.nvml = pynvml
        except pynvml.NVMLError as error:
            log.warning("NVML does not answer for %s: %s", uuid, error)

    def ask(self, name: str, *arguments: Any) -> Any:
        """One reading; None where the driver withholds it."""
        if self.nvml is None:
            return None
        try:
            return getattr(self.nvml, name)(self.handle, *arguments)
        except self.nvml.NVMLError:
            return None

    def begin(self) -> None:
        """The processes that are there now are the judge, the runner, and whoever else was there before."""
        self.known = self.processes()

    def processes(self) -> set[int]:
        found = self.ask("nvmlDeviceGetComputeRunningProcesses")
        return {process.pid for process in found} if found else set()

    def disturbed(self) -> str:
        """Why the last pair may not be believed; "" when nothing is known against it."""
        reasons = self.ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0
        words = [word for bit, word in THROTTLES.items() if reasons & bit]
        self.counted += 1
        if self.counted % 8 == 1:  # a millisecond each
            strangers = self.processes() - self.known
            if strangers:
                words.append(f"{len(strangers)} other processes came onto the device")
        return ", ".join(words)

    def readings(self) -> dict[str, str]:
        """Clocks and temperature, "" for what is withheld."""
        if self.nvml is None:
            return {}
        core = self.ask("nvmlDeviceGetClockInfo", self.nvml.NVML_CLOCK_SM)
        memory = self.ask("nvmlDeviceGetClockInfo", self.nvml.NVML_CLOCK_MEM)
        warmth = self.ask("nvmlDeviceGetTemperature", self.nvml.NVML_TEMPERATURE_GPU)
        return {
            "sm": f"{core} MHz" if core else "",
            "memory": f"{memory} MHz" if memory else "",
            "temperature": f"{warmth} °C" if warmth else "",
        }
