"""Keys that a person presses while an answer is written, without a line of input between. Knows no conversation."""

import asyncio
import os
import sys
import termios
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Keys:
    """Keeps what is typed off the screen, where an answer is drawn. Calls `pressed` for every key while it listens, and
    that only where `listen` was asked for, because what is typed ahead is lost to it. Ctrl-C stays what it is. Only for
    a terminal."""

    def __init__(self, pressed: Callable[[], None]):
        self._pressed = pressed
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
        self._pressed()
