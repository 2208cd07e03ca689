"""table.md: a report as Markdown for people, written, read back and laid out for a terminal. Knows no experiment."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from common.programs.fitted_table import fitted_table
from common.programs.word_wrap import wrapped
from netem.experiments.experiment import Report

_POINT = "- "
_EDGE = "|"
_INVALID = "**This run is not valid:**"


@dataclass(frozen=True)
class KeptTable:
    """What table.md says beyond results.json. Cells are Markdown, as they were written."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str]


def write_table(report: Report, provenance: dict[str, Any]) -> str:
    lines = [f"# {report.title}", ""]
    if report.faults:
        lines += [_INVALID, "", *_points(report.faults), ""]
    lines += [_row(report.headings), _row(["---"] * len(report.headings)), *map(_row, report.rows), ""]
    lines += [*_points(report.remarks), "", _origin(provenance)]
    return "\n".join(lines) + "\n"


def read_table(text: str) -> KeptTable:
    """Reads what `write_table` wrote. Raises ValueError for a text without a table, or with rows of another length."""
    lines = text.splitlines()
    rows = [_cells(line) for line in lines if line.startswith(_EDGE)]
    if len(rows) < 2:
        raise ValueError("there is no table")
    headings, _, *body = rows
    if any(len(row) != len(headings) for row in body):
        raise ValueError(f"a row has not {len(headings)} cells")
    return KeptTable(headings, body, list(_remarks(lines)))


def on_terminal(text: str, width: int) -> str:
    """What `write_table` wrote, in lines of at most `width` cells."""
    lines = []
    for is_table, group in groupby(text.splitlines(), lambda line: line.startswith(_EDGE)):
        if is_table:
            headings, _, *rows = map(_cells, group)
            lines += fitted_table(headings, rows, width)
        else:
            lines += [row.rstrip() for line in group for row in wrapped(line, width)]
    return "\n".join(lines) + "\n"


def _remarks(lines: Sequence[str]) -> Iterator[str]:
    """The points behind the table; those before it are faults, which results.json has too."""
    behind = lines[max(index for index, line in enumerate(lines) if line.startswith(_EDGE)) + 1 :]
    for line in behind:
        if line.startswith(_POINT):
            yield line.removeprefix(_POINT)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip(_EDGE).split(_EDGE)]


def _origin(provenance: dict[str, Any]) -> str:
    machine, target = provenance["machine"], provenance["models"].get("target")
    commit = provenance["commit"][:12] or "unknown"
    changes = " with uncommitted changes" if provenance["uncommitted_changes"] else ""
    model = f"{target['name']}, fingerprint {target['fingerprint'][:12]}" if target else "no model"
    return (
        f"Commit {commit}{changes}, {provenance['started']}, {machine['processor']}, {machine['cores']} cores, load "
        f"{machine['load_average_before']:.2f} before the run; {model}; seed {provenance['seed']}: "
        f"`{provenance['command']}`"
    )


def _points(sentences: Sequence[str]) -> list[str]:
    return [f"{_POINT}{sentence}" for sentence in sentences]


def _row(cells: Sequence[str]) -> str:
    return f"{_EDGE} " + f" {_EDGE} ".join(cells) + f" {_EDGE}"
