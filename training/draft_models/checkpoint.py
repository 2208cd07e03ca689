"""The files of an unfinished run, from which it can be resumed: its settings and its newest state.

What may live here: the work folder's files. It may not know recipes or what the settings mean.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from common.atomic import atomic_file
from common.protocol.errors import MisuseError
from training.writing import BEGUN_AGAIN, CONTINUED, written

VERSION = 3
"""Of what is stored of a run's settings; another version of Outrider may store others."""


@dataclass
class RunProgress:
    """The progress of a run. seconds: so far, measurements included. loss: the mean of the last steps. accepted:
    (step, accept length) of every measurement."""

    step: int = 0
    tokens: int = 0
    learned: int = 0
    seconds: float = 0.0
    loss: float = float("nan")
    accepted: list[tuple[int, float]] = field(default_factory=list)


class WorkFolder:
    """Beside the output: `settings.json`, `checkpoint.pt`, `log.jsonl`, `regenerated.jsonl`."""

    def __init__(self, out: Path) -> None:
        """Raises `MisuseError` where nothing can be beside the output."""
        named = out.resolve() if out.name in ("", "..") else out
        if not named.name:
            raise MisuseError(f"--out {out} has no folder beside it for work in progress: choose another --out")
        self.path = named.with_name(named.name + ".work")
        self.settings = self.path / "settings.json"
        self.checkpoint = self.path / "checkpoint.pt"
        self.log = self.path / "log.jsonl"
        self.regenerated = self.path / "regenerated.jsonl"

    def stored(self, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """The stored settings; None where the run has not begun.

        Raises `MisuseError` where a value differs from that in `settings`, another version of Outrider began the run,
        or the file is broken.
        """
        if not self.settings.exists():
            return None
        try:
            found = json.loads(self.settings.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise MisuseError(f"{self.settings} is broken: remove {self.path} and start again")
        if found.get("version") != VERSION:
            raise MisuseError(
                f"another version of Outrider began the run in {self.path}, so that its settings cannot be compared: "
                "choose another --out, or remove it and start again"
            )
        before, now = _flat(found), _flat(json.loads(json.dumps(settings)))
        differing = [name for name, value in now.items() if before.get(name) != value]
        if differing:
            shown = "; ".join(f"{name}: {before.get(name)}, now {now[name]}" for name in differing)
            raise MisuseError(
                f"the run in {self.path} has other settings ({shown}): pass the same, or choose another --out"
            )
        return found

    def store(self, settings: Mapping[str, Any]) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        with written(self.settings, BEGUN_AGAIN), atomic_file(self.settings) as file:
            file.write(json.dumps({"version": VERSION, **settings}, indent=2).encode())

    def write_log(self, entry: Mapping[str, Any]) -> None:
        with written(self.log, CONTINUED), self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def rewind_log(self, step: int) -> None:
        """Removes the entries after `step`, which a resumed run writes again."""
        if self.log.exists():
            lines = self.log.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
            with written(self.log, CONTINUED), atomic_file(self.log) as file:
                file.write("".join(kept).encode())

    def save(self, module: nn.Module, optimizer: torch.optim.Optimizer, progress: RunProgress) -> None:
        """Write the checkpoint so that a crash leaves either the old one or the new one."""
        self.path.mkdir(parents=True, exist_ok=True)
        state = {"module": module.state_dict(), "optimizer": optimizer.state_dict(), "progress": asdict(progress)}
        with written(self.checkpoint, CONTINUED), atomic_file(self.checkpoint) as file:
            torch.save(state, file)

    def restore(self, module: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> RunProgress:
        """Loads the newest state into both and returns its progress; a new one where there is no checkpoint.

        Raises `MisuseError` for a checkpoint that does not fit.
        """
        if not self.checkpoint.exists():
            return RunProgress()
        try:
            state = torch.load(self.checkpoint, weights_only=True, map_location=device)
            module.load_state_dict(state["module"])
            optimizer.load_state_dict(state["optimizer"])
            progress = RunProgress(**state["progress"])
        # torch raises many kinds of exceptions for a broken or foreign file.
        except Exception as error:
            raise MisuseError(
                f"{self.checkpoint} does not fit this run: remove {self.path} to start again, or choose another --out"
            ) from error
        progress.accepted = [(int(step), float(value)) for step, value in progress.accepted]
        return progress


def check_writable(folder: Path) -> None:
    """Raises `MisuseError` where nothing could be written into the folder, which need not exist yet."""
    try:
        with TemporaryDirectory(dir=next(each for each in (folder, *folder.parents) if each.exists())):
            pass
    except OSError as error:
        raise MisuseError(f"{folder} cannot be written: {error.strerror}; choose another --out") from error


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """With the content of mappings in place of them."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found.update(value if isinstance(value, Mapping) else {name: value})
    return found
