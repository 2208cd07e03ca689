"""How much memory the control groups of this process leave it: those of a container or of a systemd unit.

It may not know what the memory is for. Linux alone has them; elsewhere nothing is limited.
"""

import math
from pathlib import Path
from typing import NamedTuple

_OWN = Path("/proc/self/cgroup")
_MOUNTED = Path("/sys/fs/cgroup")


class _Files(NamedTuple):
    """Of a group's memory. `reclaimable` are lines of `memory.stat`: cached files, which the kernel would give up."""

    root: Path
    limit: str
    usage: str
    reclaimable: tuple[str, ...]


def memory_left_bytes() -> float:
    """What programs of this process's groups may still take, without limit `inf`."""
    try:
        lines = _OWN.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return math.inf
    left = math.inf
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            files = _Files(_MOUNTED, "memory.max", "memory.current", ("inactive_file", "active_file"))
        elif "memory" in controllers.split(","):
            root = _MOUNTED / "memory"
            cached = ("total_inactive_file", "total_active_file")
            files = _Files(root, "memory.limit_in_bytes", "memory.usage_in_bytes", cached)
        else:
            continue
        group = files.root / path.lstrip("/")
        # In a container the path may be the host's, which is not there; its own group is the root then.
        left = min(
            left, *(_left_bytes(each, files) for each in (group, *group.parents) if each.is_relative_to(files.root))
        )
    return left


def _left_bytes(group: Path, files: _Files) -> float:
    try:
        limit = int((group / files.limit).read_text(encoding="ascii"))
        usage = int((group / files.usage).read_text(encoding="ascii"))
        lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
        statistics = dict(line.split(" ", 1) for line in lines)
        return max(0, limit - usage + sum(int(statistics.get(name, 0)) for name in files.reclaimable))
    except (OSError, ValueError):  # no such group, or `max`
        return math.inf
