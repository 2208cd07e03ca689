"""How many connections the server takes: as many as it has file descriptors for, beside those that it needs itself.

It may not know gRPC or what is said on a connection.
"""

import os
import resource
from pathlib import Path

from common.protocol.errors import MisuseError

MAX_CONNECTIONS = 4096
"""Each costs memory before it has said anything."""

_RESERVED = 96  # file descriptors: files of bundles that are read, metrics, logs, what libraries open
_MIN_CONNECTIONS = 16


def max_connections() -> int:
    """Raises the limit of this process where it may. Raises MisuseError where hardly anybody could connect."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = _open_descriptors() + _RESERVED
    wanted = taken + MAX_CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    left = MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, soft - taken)
    if left < _MIN_CONNECTIONS:
        raise MisuseError(
            f"{soft} file descriptors leave none for clients; allow {taken + MAX_CONNECTIONS} with `ulimit -n` or "
            "LimitNOFILE"
        )
    return left


def _open_descriptors() -> int:
    known = Path("/dev/fd")
    return len(os.listdir(known)) if known.is_dir() else 0
