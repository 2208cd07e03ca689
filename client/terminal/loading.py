"""Shows at a terminal that the program is loading, until there is something else to see.

It runs before everything slow, so what it imports may import nothing but the standard library.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from common.programs.interruption import ended_at_once
from common.programs.plain_stream import drawable

STOPPED = "outrider: stopped"
"""What is printed after Ctrl-C if nothing had begun."""

_SENTENCE = "loading ..."
_ERASE_LINE = "\r\x1b[K"


@contextmanager
def loading() -> Iterator[Callable[[], None]]:
    """Yields what is to be called before anything is shown; until then Ctrl-C ends the program at once. Says nothing
    if stderr is no terminal, or a dumb one."""
    stream = drawable(sys.stderr)
    is_shown = stream.isatty() and os.environ.get("TERM") not in (None, "dumb", "unknown")

    def loaded() -> None:
        nonlocal is_shown
        may_end_well()
        if is_shown:
            stream.write(_ERASE_LINE)
            stream.flush()
        is_shown = False

    if is_shown:
        stream.write(_SENTENCE)
        stream.flush()
    with ended_at_once(STOPPED) as may_end_well:
        try:
            yield loaded
        finally:
            loaded()
