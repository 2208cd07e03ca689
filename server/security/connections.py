"""The maximum number of connections: as many as there are file descriptors, beside those that the server needs itself.

It may not know gRPC or what a connection carries.
"""

import os
import resource
from pathlib import Path

from common.protocol.errors import MisuseError
from common.sampling.grammar import MOST_KEPT
from server.constraint_compiler import AT_ONCE
from server.security.call_pools import LIMITS, CallKind

MAX_CONNECTIONS = 4096
"""Each connection costs memory before it has sent anything."""

_RESERVED = 96  # file descriptors: metrics, logs, what libraries open
_MIN_CONNECTIONS = 16


def reserved_descriptors(max_sessions: int, targets: int) -> int:
    """What the server needs beside connections: each constraint has a socket, and each file of a bundle that is being
    read has one."""
    constraints = max_sessions + AT_ONCE + (MOST_KEPT + 1) * targets
    return _RESERVED + constraints + LIMITS[CallKind.FETCH].calls


def max_connections(reserved: int) -> int:
    """Raises the process's limit of file descriptors where that is allowed. Raises MisuseError where too few are
    left beside so many that are `reserved`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = _open_descriptors() + reserved
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
