"""The results page as HTML: for each kept run its plot, its table, its remarks and where it comes from.

It reads its own style and script, and no other file.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from netem.experiments.kept_results import KeptResults
from netem.experiments.report import FILES
from netem.experiments.table import KeptTable
from netem.page.vector import as_part
from netem.plots.phrases import counted
from netem.plots.picture import Headline

_STATIC = Path(__file__).parent / "static"

GROUPS: Mapping[str, str] = {
    "speed": "Speed of one client",
    "load": "Many clients",
    "drafts": "Draft models",
    "outages": "Links and servers that break",
    "exactness": "The right answers",
    "machines": "What passes and clients cost",
}
"""By the module of `netem.plots` that draws the plot, in the order of the page."""

_LONG_CHARACTERS = 48
"""From here on a cell has several lines."""

_UNITS = {"ms": 1e-3, "s": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9}
_QUANTITY = re.compile(r"[*(~x×]*(-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)")
_UNIT = re.compile(r"(?<=[\d ])(ms|s|kB|KB|MB|GB)\**$")
_MARKS = re.compile(r"\*\*(.+?)\*\*|`(.+?)`")


@dataclass(frozen=True)
class ShownRun:
    """A run with all that the page shows of it.

    svg: the plot as a document of its own. origin: facts by their names, as `origin_of` gives them.
    """

    run: KeptResults
    table: KeptTable
    headline: Headline
    svg: str
    origin: Mapping[str, str]

    @property
    def name(self) -> str:
        return escape(self.run.folder.name)

    @property
    def group(self) -> str:
        return self.run.experiment.plot.partition(":")[0].rpartition(".")[2]


def render(runs: Sequence[ShownRun]) -> str:
    """The whole page; the same for the same runs in any order."""
    ordered = sorted(runs, key=lambda shown: (list(GROUPS).index(shown.group), shown.name))
    invalid = sum(bool(shown.run.faults) for shown in ordered)
    groups = {group: [shown for shown in ordered if shown.group == group] for group in GROUPS}
    groups = {group: of_group for group, of_group in groups.items() if of_group}
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<title>Outrider: results</title>",
            f"<style>\n{(_STATIC / 'page.css').read_text(encoding='utf-8')}</style>",
            '<a class="skip" href="#runs">Skip to the results</a>',
            "<header><h1>Outrider: results</h1>",
            f"<p>{len(ordered)} runs that are kept, {invalid} of which count as not valid and say so. Plots and tables "
            "are made from their results; a heading of a table sorts it. In plots Outrider's own systems are green, "
            'with bold names. <a href="README.md">How to read them</a></p></header>',
            '<nav aria-label="Runs">',
            *(line for group, of_group in groups.items() for line in _contents(group, of_group)),
            "</nav>",
            '<main id="runs">',
            *(line for group, of_group in groups.items() for line in _group(group, of_group)),
            "</main>",
            f"<script>\n{(_STATIC / 'page.js').read_text(encoding='utf-8')}</script>",
            "</html>",
            "",
        )
    )


def _contents(group: str, runs: Sequence[ShownRun]) -> Iterator[str]:
    yield f"<h2>{GROUPS[group]}</h2>"
    yield "<ul>"
    yield from (f'<li><a href="#{shown.name}">{shown.name}</a></li>' for shown in runs)
    yield "</ul>"


def _group(group: str, runs: Sequence[ShownRun]) -> Iterator[str]:
    yield f"<h2>{GROUPS[group]}</h2>"
    for shown in runs:
        yield from _section(shown)


def _section(shown: ShownRun) -> Iterator[str]:
    name = shown.name
    yield f'<section id="{name}" aria-labelledby="{name}-message">'
    yield f'<p class="name"><a href="#{name}">{name}</a></p>'
    yield f'<h3 id="{name}-message">{escape(shown.headline.message)}</h3>'
    yield f'<p class="shown">{escape(shown.headline.shown)}</p>'
    if shown.run.faults:
        reasons = counted(len(shown.run.faults), "reason")
        yield f'<details class="faults"><summary>Counts as not valid, for {reasons}</summary>'
        yield f"<ul>{''.join(f'<li>{_inline(fault)}</li>' for fault in shown.run.faults)}</ul></details>"
    yield f'<div class="picture" role="region" tabindex="0" aria-label="Plot of {name}">'
    yield as_part(shown.svg, name, shown.headline.message)
    yield "</div>"
    yield from _origin(shown)
    yield from _table(shown)
    yield "</section>"


def _origin(shown: ShownRun) -> Iterator[str]:
    """Where the run comes from, behind a button that says the least of it."""
    tip, least = f"{shown.name}-origin", f"commit {shown.origin['Commit'][:12]}, {shown.origin['Started'][:10]}"
    yield '<p class="origin"><span class="tipped">'
    yield f'<button type="button" aria-describedby="{tip}">{least}</button>'
    yield f'<span role="tooltip" id="{tip}">'
    yield from (f"<span><b>{fact}</b> {_inline(value)}</span>" for fact, value in shown.origin.items())
    yield "</span></span>"
    yield " ".join(f'<a href="{shown.name}/{file}">{file}</a>' for file in FILES)
    yield "</p>"


def origin_of(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Where a run comes from, for people. Raises KeyError for what is not known of it."""
    machine = provenance["machine"]
    changes = ", with uncommitted changes" if provenance["uncommitted_changes"] else ""
    return {
        "Commit": f"{provenance['commit'] or 'unknown'}{changes}",
        "Started": provenance["started"],
        **({"Took": f"{provenance['seconds']} s"} if "seconds" in provenance else {}),
        "Command": provenance["command"],
        "Seed": str(provenance["seed"]),
        "Machine": f"{machine['processor']}, {machine['cores']} cores, load {machine['load_average_before']:.2f}",
        "System": f"{machine['system']}, TCP {machine['tcp_congestion_control'] or 'unknown'}",
        "Versions": ", ".join(f"{package} {version}" for package, version in provenance["versions"].items()),
        **{
            f"Model: {role}": f"{model['name']}, fingerprint {model['fingerprint'][:12]}"
            for role, model in provenance["models"].items()
        },
    }


def _table(shown: ShownRun) -> Iterator[str]:
    table = shown.table
    keys = [_sort_keys([row[column] for row in table.rows]) for column in range(len(table.headings))]
    yield f"<details><summary>Table of {len(table.rows)} rows, and what to know to read it</summary>"
    yield f'<div class="table" role="region" tabindex="0" aria-label="Table of {shown.name}">'
    yield f"<table><caption>{escape(shown.run.title)}</caption><thead><tr>"
    for index, heading in enumerate(table.headings, 1):
        yield f'<th scope="col"><button type="button">{_inline(heading) or f"column {index}"}</button></th>'
    yield "</tr></thead><tbody>"
    for number, row in enumerate(table.rows):
        yield "<tr>" + "".join(_cell(cell, keys[column][number]) for column, cell in enumerate(row))
    yield "</table></div>"
    yield f"<ul>{''.join(f'<li>{_inline(remark)}</li>' for remark in table.remarks)}</ul></details>"


def _cell(cell: str, key: float | None) -> str:
    value = "" if key is None else f" data-v={key:.10g}"
    long = " class=long" if len(cell) > _LONG_CHARACTERS else ""
    return f"<td{value}{long}>{_inline(cell)}"


def _sort_keys(cells: Sequence[str]) -> list[float | None]:
    """What a column is sorted by: quantities in one unit, where all that is written there are such; else nothing."""
    keys = [_quantity(cell) for cell in cells]
    numeric = all(key is not None or not cell for key, cell in zip(keys, cells, strict=True))
    return keys if numeric else [None] * len(cells)


def _quantity(cell: str) -> float | None:
    found, unit = _QUANTITY.match(cell), _UNIT.search(cell)
    return None if found is None else float(found[1].replace(",", "")) * (_UNITS[unit[1]] if unit else 1.0)


def _inline(markdown: str) -> str:
    """Markdown's bold and code as HTML; all else is text."""
    return _MARKS.sub(
        lambda found: f"<b>{found[1]}</b>" if found[1] else f"<code>{found[2]}</code>", escape(markdown, quote=False)
    )
