"""OUTRIDER_DEBUG: whether the programs show the traceback of what made them fail, beside the sentence for a person.

It is a variable and no option, because what fails may be how options are read.
"""

import os
import sys
import traceback

from common.protocol.errors import MisuseError

DEBUG_VARIABLE = "OUTRIDER_DEBUG"

_ON = ("1", "true", "yes", "on")
_OFF = ("", "0", "false", "no", "off")


def is_debugging() -> bool:
    """Raises MisuseError where the variable says neither."""
    said = os.environ.get(DEBUG_VARIABLE, "").strip().lower()
    if said not in _ON + _OFF:
        raise MisuseError(f"{DEBUG_VARIABLE} is 1 to show tracebacks or 0 not to, not '{said}'")
    return said in _ON


def show_traceback(error: BaseException) -> None:
    """On stderr, with what caused the error."""
    traceback.print_exception(error, file=sys.stderr)
