"""Single key presses while an answer is written. Knows no conversation."""

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self


class Keys:
    """Turns echo off while an answer is drawn. Calls `on_press` for every key between `listen(True)` and
    `listen(False)`, and at no other time, because keys typed ahead would be lost. Ctrl-C works as ever, and SIGTERM
    ends the program with the terminal as it was. Only for a terminal, and for the main thread."""

    def __init__(self, on_press: Callable[[], None]):
        self._on_press = on_press
        self._file = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._file)
        self._listens = False

    def __enter__(self) -> Self:
        self._set(termios.ECHO)
        self._at_sigterm = signal.getsignal(signal.SIGTERM)
        if self._at_sigterm not in (signal.SIG_IGN, None):
            signal.signal(signal.SIGTERM, self._end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.listen(False)
            self._set(0)
        finally:
            if signal.getsignal(signal.SIGTERM) == self._end:
                signal.signal(signal.SIGTERM, self._at_sigterm)

    def listen(self, wanted: bool) -> None:
        """Needs the running event loop."""
        if wanted and not self._listens:
            self._set(termios.ECHO | termios.ICANON)
            asyncio.get_running_loop().add_reader(self._file, self._read)
        elif not wanted and self._listens:
            asyncio.get_running_loop().remove_reader(self._file)
            self._set(termios.ECHO)
        self._listens = wanted

    def _end(self, number: int, frame: object) -> None:
        """Leaves SIGTERM to whatever it was left to before."""
        # Who sets a terminal from the background is stopped instead, so that SIGTERM would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(self._file, termios.TCSANOW, self._before)
        signal.signal(signal.SIGTERM, self._at_sigterm)
        os.kill(os.getpid(), signal.SIGTERM)

    def _set(self, without: int) -> None:
        attributes = [*self._before]
        attributes[3] &= ~without
        termios.tcsetattr(self._file, termios.TCSADRAIN, attributes)

    def _read(self) -> None:
        os.read(self._file, 1024)
        self._on_press()
