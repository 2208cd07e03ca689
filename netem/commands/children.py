"""Processes that a command of the lab starts, each in a session of its own: none outlives the command, also where a
signal ends it or they are stopped. It may not know what they do."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, Self

from common.protocol.errors import OutriderError

_END_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_ENDING_S = 10.0

SIGNALS_SEEN_S = 0.2
"""The main thread waits no longer at once: a signal that comes just before a call that blocks, or that another thread
gets, is seen only when the call has ended."""


class _SignalError(BaseException):
    """No handler of errors in the block takes it for one."""


class Children:
    """SIGTERM and SIGHUP end its block, as Ctrl-C does, and those that run when the block ends are ended. Only the main
    thread may enter it; any may start children."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._has_ended = False
        self._is_starting = False  # in the main thread, where a signal would lose the process that it starts
        self._received: int | None = None

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._end_by) for number in (*_END_SIGNALS, signal.SIGINT)}
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Raises OutriderError in place of SIGTERM or SIGHUP."""
        try:
            with self._lock:
                self._has_ended = True
            self.end(*self._running)
        finally:
            for number, handler in self._before.items():
                signal.signal(number, handler)
        if isinstance(error, _SignalError):
            raise OutriderError(f"it was ended by {error}, and its children with it") from None

    def start(self, command: Sequence[str], output: IO[bytes], folder: Path | None = None) -> "subprocess.Popen[bytes]":
        """output: what it writes on both streams. Raises OutriderError once the block has ended."""
        with self._lock:
            if self._has_ended:
                raise OutriderError("nothing is started any more")
            self._is_starting = threading.current_thread() is threading.main_thread()
            try:
                process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, start_new_session=True)
                self._running.add(process)
            finally:
                self._is_starting = False
        if self._received is not None:
            self._raise_in_main()
        return process

    def wait(self, process: "subprocess.Popen[bytes]") -> int:
        """Its exit code, once it has ended."""
        while (code := process.poll()) is None:
            time.sleep(SIGNALS_SEEN_S)
        return code

    def end(self, *processes: "subprocess.Popen[bytes]") -> None:
        """Ends all processes of their sessions that are left: asks them to, and kills those that take too long."""
        try:
            _signal(processes, signal.SIGTERM)
            _signal(processes, signal.SIGCONT)  # one that is stopped is told of nothing else
            deadline = time.monotonic() + _ENDING_S
            for process in processes:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
        finally:
            _signal(processes, signal.SIGKILL)
            for process in processes:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_ENDING_S)
            self._running.difference_update(processes)

    def _end_by(self, number: int, _: FrameType | None) -> None:
        """Another signal to end changes nothing; Ctrl-C once more does not wait for what is asked to end."""
        for each in _END_SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._received = number
        if not self._is_starting:
            self._raise_in_main()

    def _raise_in_main(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if self._received == signal.SIGINT:
            raise KeyboardInterrupt
        raise _SignalError(signal.Signals(self._received or 0).name)


def _signal(processes: Sequence["subprocess.Popen[bytes]"], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
