"""Guards around Textual's terminal driver: bytes that are not UTF-8, TERM and HUP, and the exit status."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from textual.app import App
from textual.drivers import linux_driver

GRACE_S = 2.0
HUNG_UP = 128 + signal.SIGHUP


class _Forgiving(codecs.IncrementalDecoder):
    """UTF-8 with replacement marks: one X10 mouse report beyond column 95 must not end the program."""

    def __init__(self, errors: str = "replace") -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        super().__init__("replace")

    def decode(self, input: Any, final: bool = False) -> str:
        if not input and not final:
            raise EOFError  # a terminal that is gone reads as nothing, for ever
        return self._decoder.decode(input, final)


def _forgiving_decoder(encoding: str) -> Callable[..., codecs.IncrementalDecoder]:
    return _Forgiving if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)


class _TimedFile:
    """The terminal, with the time of the slowest flush: what a slow line makes wait."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.slowest_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def flush(self) -> None:
        before = time.perf_counter()
        self._file.flush()
        self.slowest_s = max(self.slowest_s, time.perf_counter() - before)


class Driver(linux_driver.LinuxDriver):
    """Textual's driver, reading its input with replacement marks; ends the program when its terminal is gone."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.terminal = _TimedFile(self._file)
        vars(self)["_file"] = self.terminal

    def slowest_write_s(self) -> float:
        """The slowest flush since the last call."""
        found, self.terminal.slowest_s = self.terminal.slowest_s, 0.0
        return found

    def run_input_thread(self) -> None:
        # The decoder is looked up in the module's namespace when the thread starts.
        vars(linux_driver)["getincrementaldecoder"] = _forgiving_decoder
        try:
            super().run_input_thread()
        except (EOFError, OSError):
            self._terminal_gone()

    def _terminal_gone(self) -> None:
        """Leave as after SIGHUP; nothing can be drawn any more, so not even a stuck write may hold us up."""
        late = threading.Timer(GRACE_S, os._exit, [HUNG_UP])
        late.daemon = True
        late.start()
        self._loop.call_soon_threadsafe(self._app.exit, None, HUNG_UP)


def run_guarded(app: App[int], *, mouse: bool = True) -> int:
    """Run to the end; the terminal is put right on TERM and HUP too. The exit status."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, app.exit, None, 128 + number)
        await app.run_async(mouse=mouse)

    asyncio.run(run())
    return app.return_code or 0
