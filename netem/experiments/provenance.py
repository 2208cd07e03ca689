"""Where a result comes from: recorded by code, so that a table can be made again. Knows no experiment."""

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

_PACKAGES = ("outrider", "torch", "transformers", "grpcio", "numpy")


def provenance(seed: int) -> dict[str, Any]:
    """Commit, versions, machine, command and time of the run that asks."""
    return {
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain")),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}},
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "system": f"{platform.system()} {platform.release()}",
            "tcp_congestion_control": _read("/proc/sys/net/ipv4/tcp_congestion_control"),
            "load_average": os.getloadavg()[0],
        },
        "command": shlex.join(["outrider-lab", *sys.argv[1:]]),
        "seed": seed,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _git(*arguments: str) -> str:
    here = Path(__file__).parent
    try:
        done = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def _processor() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
