"""Records where a result comes from, so that a table can be reproduced. Knows no experiment."""

import hashlib
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from common.draft_kinds import DraftParts
from common.draft_models.directory import EXPORTER_WEIGHTS, read_draft_kind
from common.draft_models.weight_files import draft_weight_files
from common.models.fingerprint import fingerprint
from common.models.source import CONFIG

_PACKAGES = ("outrider", "torch", "transformers", "grpcio", "numpy")
_COMPUTES_NOTHING = (":(top,exclude)docs", ":(top,exclude)tests", ":(top,exclude)*.md")
"""Paths of git: documents, model cards among them, and tests change no result."""

_CARD = "README.md"
_TITLE = "# "


@dataclass(frozen=True, slots=True)
class SourceTree:
    """A commit, empty outside a clone, and whether files differ from it."""

    commit: str
    uncommitted_changes: bool


def provenance(seed: int, models: Mapping[str, Path]) -> dict[str, Any]:
    """Commit, versions, models by name, machine, command and time of a run that is about to begin.

    Call it before the run, so that the load average does not include the run itself.
    """
    return {
        **asdict(source_tree()),
        "versions": versions(),
        "models": identities(models),
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "system": f"{platform.system()} {platform.release()}",
            "tcp_congestion_control": _read(Path("/proc/sys/net/ipv4/tcp_congestion_control")),
            "load_average_before": os.getloadavg()[0],
            **_gpus(),
        },
        "command": shlex.join(["outrider-lab", *sys.argv[1:]]),
        "seed": seed,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def versions() -> dict[str, str]:
    """Of Python, and of what computes."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def source_tree() -> SourceTree:
    """What this program is made of, as far as git knows."""
    return SourceTree(_git("rev-parse", "HEAD"), bool(_git("status", "--porcelain")))


def was_unchanged_since(commit: str) -> bool:
    """Whether the source still computes what that commit does."""
    changed = _git("status", "--porcelain", "--", ":/", *_COMPUTES_NOTHING)
    return not changed and same_computation(commit, source_tree().commit)


def computation() -> str:
    """The last commit that changed what is computed; empty outside a clone, and where files differ that no commit
    names."""
    if _git("status", "--porcelain", "--", ":/", *_COMPUTES_NOTHING):
        return ""
    return _git("log", "-1", "--format=%H", "--", ":/", *_COMPUTES_NOTHING)


def same_computation(commit: str, other: str) -> bool:
    """Whether two commits differ in documents and tests alone, if at all; False for one that git does not know."""
    return commit == other or _git("diff", "--stat", commit, other, "--", ":/", *_COMPUTES_NOTHING, failed="?") == ""


def identities(models: Mapping[str, Path]) -> dict[str, dict[str, str]]:
    """The name and the fingerprint of each checkpoint."""
    return {name: _identity(checkpoint) for name, checkpoint in models.items()}


def _identity(checkpoint: Path) -> dict[str, str]:
    """The title of the checkpoint's model card, or its folder's name where it has none, and its fingerprint."""
    titles = (line.removeprefix(_TITLE) for line in _read(checkpoint / _CARD).splitlines() if line.startswith(_TITLE))
    return {"name": next(titles, checkpoint.name), "fingerprint": _fingerprint(checkpoint)}


def _fingerprint(checkpoint: Path) -> str:
    """Draft models that are not complete models have no tokenizer and are small, so all their bytes are hashed."""
    if read_draft_kind(checkpoint).parts is DraftParts.CAUSAL_LM:
        return fingerprint(checkpoint)
    digest = hashlib.sha256()
    for file in (checkpoint / CONFIG, *draft_weight_files(checkpoint), checkpoint / EXPORTER_WEIGHTS):
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _git(*arguments: str, failed: str = "") -> str:
    """What git says in a clone of ours, `failed` elsewhere: an environment may lie in a repository of its user's."""
    here = Path(__file__).parent
    try:
        subprocess.run(["git", "ls-files", "--error-unmatch", __file__], cwd=here, capture_output=True, check=True)
        done = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return failed
    return done.stdout.strip()


def _processor() -> str:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _gpus() -> dict[str, Any]:
    """The GPUs that torch sees, their driver and the CUDA that torch is built for; nothing on a machine without."""
    import torch

    if not torch.cuda.is_available():
        return {}
    return {
        "gpus": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
        "gpu_driver": _read(Path("/proc/driver/nvidia/version")).partition("\n")[0],
        "cuda": torch.version.cuda,
    }


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
