"""Ctrl-C during a native call that may never return, such as a tokenizer that a server chose: the second one ends the
program, although Python runs no signal handler before the call returns.

It may know C's signals, and nothing of what is called.
"""

import ctypes
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_IS_MACOS = sys.platform == "darwin"
_RESETS_ITSELF = 0x4 if _IS_MACOS else 0x80000000  # SA_RESETHAND
_DEFAULT, _IGNORED = None, 1  # SIG_DFL, a null pointer, and SIG_IGN


class _Action(ctypes.Structure):
    """C's struct sigaction."""

    _fields_ = (
        [("handler", ctypes.c_void_p), ("mask", ctypes.c_uint32), ("flags", ctypes.c_uint32)]
        if _IS_MACOS
        else [
            ("handler", ctypes.c_void_p),
            ("mask", ctypes.c_byte * 128),
            ("flags", ctypes.c_uint32),
            ("restorer", ctypes.c_void_p),
        ]
    )


_library: Any = ctypes.CDLL(None) if _IS_MACOS or sys.platform == "linux" else None
_lock = threading.Lock()
_calls = 0
_before = _Action()


@contextmanager
def ended_by_second_interrupt() -> Iterator[None]:
    """Within the block, the first Ctrl-C goes to the present handler, which Python runs when the native call returns;
    the second one ends the program by the system's default. May be nested and used by several threads. On systems other
    than Linux and macOS it does nothing."""
    if _library is None:
        yield
        return
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _calls
    with _lock:
        _calls += 1
        if _calls > 1:
            return
        _library.sigaction(signal.SIGINT, None, ctypes.byref(_before))
        if _before.handler not in (_DEFAULT, _IGNORED):
            armed = _Action.from_buffer_copy(_before)
            armed.flags |= _RESETS_ITSELF
            _library.sigaction(signal.SIGINT, ctypes.byref(armed), None)


def _leave() -> None:
    global _calls
    with _lock:
        _calls -= 1
        if _calls or _before.handler in (_DEFAULT, _IGNORED):
            return
        now = _Action()
        _library.sigaction(signal.SIGINT, None, ctypes.byref(now))
        # Another thread may have set its own in the meantime.
        if now.handler in (_DEFAULT, _before.handler):
            _library.sigaction(signal.SIGINT, ctypes.byref(_before), None)
