"""Ctrl-C while there is nothing to save and nothing to take down: the program ends at once.

Python would wait until whatever it imports or computes returns, and asyncio until that gives way. It comes before
everything slow, so it may import nothing but the standard library.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPTED = 130
"""The exit code of a program that was interrupted, as shells have it."""

_CLEAN_LINE = "\r\x1b[K\x1b[?25h"  # and the cursor is seen again


@contextmanager
def ended_at_once(sentence: str) -> Iterator[Callable[[], None]]:
    """Ctrl-C says `sentence` and ends the program, until the block does or what is yielded is called.

    Changes nothing where Ctrl-C is ignored or means something else already.
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
