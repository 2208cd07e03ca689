"""The maximum number of connections: as many as there are file descriptors, beside those that the server needs itself.

It may not know gRPC or what a connection carries.
"""

import os
import resource
from pathlib import Path

from common.protocol.errors import MisuseError

MAX_CONNECTIONS = 4096
"""Each connection costs memory before it has sent anything."""

_RESERVED = 96  # file descriptors: files of bundles that are read, metrics, logs, what libraries open
_MIN_CONNECTIONS = 16


def max_connections() -> int:
    """Raises the process's limit of file descriptors where that is allowed. Raises MisuseError where too few are
    left."""
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
