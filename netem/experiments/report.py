"""Writes a report as results.json, table.md and plot.png. Knows no experiment."""

import json
from pathlib import Path
from typing import Any

from netem.experiments.experiment import Report


def write_report(report: Report, provenance: dict[str, Any], out: Path) -> None:
    """Raises OSError where `out` cannot be written."""
    out.mkdir(parents=True, exist_ok=True)
    results = {"title": report.title, "valid": report.valid, "provenance": provenance, "results": report.results}
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (out / "table.md").write_text(_table(report, provenance), encoding="utf-8")
    _plot(report, out / "plot.png")


def _table(report: Report, provenance: dict[str, Any]) -> str:
    lines = [f"# {report.title}", ""]
    if not report.valid:
        lines += ["**Invalid run:** a stated cost was overrun too often; see the remarks.", ""]
    lines += [_row(report.headings), _row(["---"] * len(report.headings)), *map(_row, report.rows), ""]
    lines += [f"- {remark}" for remark in report.remarks]
    machine = provenance["machine"]
    lines += [
        "",
        f"Commit {provenance['commit'][:12] or 'unknown'}, {provenance['finished']}, {machine['processor']}, "
        f"{machine['cores']} cores, seed {provenance['seed']}: `{provenance['command']}`",
    ]
    return "\n".join(lines) + "\n"


def _row(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def _plot(report: Report, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    report.draw(axes)
    axes.set_title(report.title)
    figure.savefig(path, dpi=120)
