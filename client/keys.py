"""Keys that a person presses while an answer is written, without a line of input between. Knows no conversation."""

import asyncio
import os
import sys
import termios
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Keys:
    """Calls `pressed` for every key while it listens; Ctrl-C stays what it is. Only for a terminal, and only where
    `listen` was asked for, because what is typed ahead is lost to it."""

    def __init__(self, pressed: Callable[[], None]):
        self._pressed = pressed
        self._file = sys.stdin.fileno()
        self._before: list[int | list[bytes | int]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.listen(False)

    def listen(self, wanted: bool) -> None:
        """Needs the running event loop."""
        if wanted and self._before is None:
            self._before = termios.tcgetattr(self._file)
            raw = termios.tcgetattr(self._file)
            raw[3] &= ~(termios.ICANON | termios.ECHO)
            termios.tcsetattr(self._file, termios.TCSADRAIN, raw)
            asyncio.get_running_loop().add_reader(self._file, self._read)
        elif not wanted and self._before is not None:
            asyncio.get_running_loop().remove_reader(self._file)
            termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)
            self._before = None

    def _read(self) -> None:
        os.read(self._file, 1024)
        self._pressed()
