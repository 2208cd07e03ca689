"""Writes a report as results.json, table.md and plot.png. Knows no experiment."""

import json
from pathlib import Path
from typing import Any

from common.protocol.errors import MisuseError
from netem.experiments.experiment import Experiment, Report
from netem.experiments.table import write_table

FILES = RESULTS, TABLE, PLOT = "results.json", "table.md", "plot.png"
"""Of a report, in the order in which they are written: one without the last was broken off."""


def prepare(out: Path) -> None:
    """Makes the folder, and checks before a long run that its report can be written.

    Raises MisuseError where `out` is no folder and cannot become one.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as refusal:
        raise MisuseError(f"{out} cannot be a folder of results ({refusal.strerror}): choose another") from refusal


def write_report(experiment: Experiment, report: Report, provenance: dict[str, Any], out: Path) -> None:
    """Writes the three files into a prepared folder. Raises OSError where that fails.

    The plot is drawn from what is written, as `outrider-lab plot` draws it again.
    """
    from netem.plots.picture import write_png

    written = json.dumps(
        {
            "title": report.title,
            "faults": list(report.faults),
            "provenance": provenance,
            "results": report.results,
        },
        indent=1,
    )
    for name in (TABLE, PLOT):  # lest those of another run stay beside these results
        (out / name).unlink(missing_ok=True)
    (out / RESULTS).write_text(written + "\n", encoding="utf-8")
    (out / TABLE).write_text(write_table(report, provenance), encoding="utf-8")
    kept = json.loads(written)
    write_png(experiment.draw(), kept["results"], kept["faults"], out / PLOT)
