"""Single key presses while an answer is written. Knows no conversation."""

import asyncio
import os
import sys
import termios
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Keys:
    """Turns echo off while an answer is drawn. Calls `on_press` for every key between `listen(True)` and
    `listen(False)`, and at no other time, because keys typed ahead would be lost. Ctrl-C works as ever. Only for a
    terminal."""

    def __init__(self, on_press: Callable[[], None]):
        self._on_press = on_press
        self._file = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._file)
        self._listens = False

    def __enter__(self) -> Self:
        self._set(termios.ECHO)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.listen(False)
        self._set(0)

    def listen(self, wanted: bool) -> None:
        """Needs the running event loop."""
        if wanted and not self._listens:
            self._set(termios.ECHO | termios.ICANON)
            asyncio.get_running_loop().add_reader(self._file, self._read)
        elif not wanted and self._listens:
            asyncio.get_running_loop().remove_reader(self._file)
            self._set(termios.ECHO)
        self._listens = wanted

    def _set(self, without: int) -> None:
        attributes = [*self._before]
        attributes[3] &= ~without
        termios.tcsetattr(self._file, termios.TCSADRAIN, attributes)

    def _read(self) -> None:
        os.read(self._file, 1024)
        self._on_press()
