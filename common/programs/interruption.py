"""Ctrl-C and SIGTERM: while there is nothing to save or shut down the program ends at once, and where there is, a
sentence says what can be done next.

After Ctrl-C Python itself would end only once the running import returns, and asyncio only when the event loop runs
again. SIGTERM needs no help, but in the first process of a container. This module is imported before anything slow, so
it may import only the standard library.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPTED = 130
"""The exit code of a program that was interrupted: 128 + SIGINT, as in shells."""

TERMINATED = 143
"""The exit code of a program that ended because of SIGTERM and did not die by it: 128 + SIGTERM, as in containers."""

_FIRST_PROCESS = 1
_CLEAN_LINE = "\r\x1b[K\x1b[?25h"  # clears the line and shows the cursor


class Interruption(Exception):  # noqa: N818 - it is no error
    """Ctrl-C, where its text says what can be done next. A program that ends by it shows that sentence."""


@contextmanager
def interrupted_with(sentence: Callable[[], str]) -> Iterator[None]:
    """Turns Ctrl-C in the block into an `Interruption` with the sentence of that moment."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise Interruption(sentence()) from interrupt


@contextmanager
def ended_at_once(sentence: str) -> Iterator[Callable[[], None]]:
    """Within the block, until the yielded function is called, Ctrl-C prints `sentence` and ends the program.

    Changes nothing if SIGINT is ignored or has a handler already.
    """
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: None
        return

    def end(number: int, frame: Any) -> None:
        _end_at_once(sentence, INTERRUPTED)

    def restore() -> None:
        if signal.getsignal(signal.SIGINT) is end:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, end)
    try:
        yield restore
    finally:
        restore()


def let_sigterm_end_the_first_process(sentence: str) -> None:
    """In the first process of a container, SIGTERM prints `sentence` and ends the program from now on, unless something
    else handles it.

    The kernel drops a signal to that process that has no handler, so that nothing would end a server that loads before
    the container's grace period is over. Any other process dies by the signal, which service managers take as a clean
    end: nothing changes for it.
    """
    if os.getpid() != _FIRST_PROCESS or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    signal.signal(signal.SIGTERM, lambda number, frame: _end_at_once(sentence, TERMINATED))


def _end_at_once(sentence: str, code: int) -> None:
    clean = _CLEAN_LINE if sys.stderr.isatty() else ""
    os.write(2, f"{clean}{sentence}\n".encode())
    os._exit(code)
