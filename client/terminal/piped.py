"""What is piped into standard input beside a prompt.

Imports the standard library alone. Nothing else may live here.
"""

import os
import select
import stat
import sys

WAIT_S = 3.0
"""For what a pipe may still bring: one that was only inherited, and that nobody will write to, is not waited for."""


def read_beside_prompt() -> str | None:
    """All that is piped in; None where standard input is no pipe and no file, or nothing comes in time.

    Raises UnicodeError for what is no text.
    """
    try:
        number = sys.stdin.fileno()
        kind = os.fstat(number).st_mode
    except (OSError, ValueError, AttributeError):  # of a stream that is no file, or of none
        return None
    if stat.S_ISREG(kind):
        return sys.stdin.read()
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        return None
    is_ready = sys.platform == "win32" or bool(select.select([number], [], [], WAIT_S)[0])
    return sys.stdin.read() if is_ready else None
