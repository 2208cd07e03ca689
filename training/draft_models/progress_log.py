"""The progress of a run: shown, and written to its log.

What may live here: one report to both. It may not know what is trained, nor the form of the log file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from training.draft_models.checkpoint import RunProgress, WorkFolder
from training.progress import TrainingBar


@dataclass
class ProgressLog:
    """Shows the progress and writes it to the log file."""

    bar: TrainingBar
    folder: WorkFolder
    workers: int
    rewound: bool = False

    def report(self, progress: RunProgress, steps: int, rate: float, metrics: Mapping[str, float]) -> None:
        if not self.rewound:
            self.folder.rewind_log(progress.step - 1)
            self.rewound = True
        accepted = progress.accepted[-1] if progress.accepted else None
        entry = {"step": progress.step, "rate": rate, "tokens": progress.tokens, "seconds": progress.seconds, **metrics}
        if accepted and accepted[0] == progress.step:
            entry["accept_length"] = accepted[1]
        self.folder.write_log(entry)
        speed = progress.tokens / max(progress.seconds, 1e-9)
        self.bar.advance(progress.step, steps, progress.loss, speed, accepted[1] if accepted else None)
