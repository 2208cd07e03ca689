"""Ctrl-C while there is nothing to save or shut down: the program ends at once.

Python itself would end only after the running import or native call returns, and asyncio only when the event loop runs
again. This module is imported before anything slow, so it may import only the standard library.
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

_CLEAN_LINE = "\r\x1b[K\x1b[?25h"  # clears the line and shows the cursor


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
        clean = _CLEAN_LINE if sys.stderr.isatty() else ""
        os.write(2, f"{clean}{sentence}\n".encode())
        os._exit(INTERRUPTED)

    def restore() -> None:
        if signal.getsignal(signal.SIGINT) is end:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, end)
    try:
        yield restore
    finally:
        restore()
