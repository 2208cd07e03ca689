"""OUTRIDER_DEBUG: whether the programs show the traceback of an error, beside its sentence.

An environment variable and no option, because reading the options may be what fails.
"""

import os
import sys
import traceback

from common.protocol.errors import MisuseError

DEBUG_VARIABLE = "OUTRIDER_DEBUG"

_ON = ("1", "true", "yes", "on")
_OFF = ("", "0", "false", "no", "off")


def is_debugging() -> bool:
    """Raises MisuseError if the variable is neither on nor off."""
    value = os.environ.get(DEBUG_VARIABLE, "").strip().lower()
    if value not in _ON + _OFF:
        raise MisuseError(f"{DEBUG_VARIABLE} is 1 to show tracebacks or 0 not to, not '{value}'")
    return value in _ON


def show_traceback(error: BaseException) -> None:
    """On stderr, with what caused the error."""
    traceback.print_exception(error, file=sys.stderr)
