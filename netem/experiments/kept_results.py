"""Kept results of a run: reads what `outrider-lab run` wrote, and draws its plot again. Knows no experiment."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.protocol.errors import MisuseError
from netem.experiments.catalogue import find_experiment
from netem.experiments.experiment import Experiment
from netem.experiments.report import PLOT, RESULTS
from netem.experiments.run_command import read_command
from netem.plots.picture import Headline, svg_of, write_png


@dataclass(frozen=True)
class KeptResults:
    """What results.json in a folder holds, and the experiment that its command names."""

    folder: Path
    experiment: Experiment
    title: str
    faults: Sequence[str]
    provenance: Mapping[str, Any]
    results: Mapping[str, Any]

    def draw_again(self) -> Path:
        """Writes plot.png anew. Raises MisuseError where the results lack what it shows; OSError."""
        with self._as_misuse():
            write_png(self.experiment.draw(), self.results, self.faults, self.folder / PLOT)
        return self.folder / PLOT

    def as_svg(self) -> tuple[Headline, str]:
        """The plot's headline, and the plot without it. Raises as `draw_again`."""
        with self._as_misuse():
            return svg_of(self.experiment.draw(), self.results)

    @contextmanager
    def _as_misuse(self) -> Iterator[None]:
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError) as missing:
            raise MisuseError(
                f"{self.folder / RESULTS} lacks what the plot of '{self.experiment.name}' shows "
                f"({type(missing).__name__}: {missing}): run the experiment again"
            ) from missing


def read_results(folder: Path) -> KeptResults:
    """Raises MisuseError for a folder without results, for what is no results.json, and for an unknown experiment."""
    path = folder / RESULTS
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except OSError as refusal:
        raise MisuseError(
            f"{folder} holds no results ({path.name}: {refusal.strerror}): name a folder that `outrider-lab run` wrote"
        ) from refusal
    except ValueError as refusal:
        raise MisuseError(f"{path} is not JSON ({refusal}): run the experiment again") from refusal
    try:
        provenance = kept["provenance"]
        experiment = find_experiment(read_command(provenance["command"]).experiment)
        return KeptResults(folder, experiment, kept["title"], kept["faults"], provenance, kept["results"])
    except (LookupError, TypeError, AttributeError, ValueError) as missing:
        raise MisuseError(f"{path} is not what `outrider-lab run` writes: it lacks {missing}") from missing
