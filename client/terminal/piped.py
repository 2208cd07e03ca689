"""Whether something is piped into standard input, without reading it: a shell loop may need it for its next command.

Imports the standard library alone. Nothing else may live here.
"""

import os
import stat
import struct
import sys

_NUMBER = struct.Struct("i")


def is_something_piped() -> bool:
    """Whether a pipe or a file that is standard input holds something now. What comes later is not waited for."""
    try:
        number = sys.stdin.fileno()
        kind = os.fstat(number)
        if stat.S_ISREG(kind.st_mode):
            return os.lseek(number, 0, os.SEEK_CUR) < kind.st_size
        return stat.S_ISFIFO(kind.st_mode) and _waiting_bytes(number) > 0
    except (OSError, ValueError):  # of a stream that is no file
        return False


def _waiting_bytes(number: int) -> int:
    try:
        import fcntl
        import termios
    except ImportError:  # not on this system
        return 0
    (count,) = _NUMBER.unpack(fcntl.ioctl(number, termios.FIONREAD, _NUMBER.pack(0)))
    return int(count)
