"""The frame of every plot: size, fonts, headline, and how it is written. Knows no experiment."""

import hashlib
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from netem.plots.palette import GRID, INK, MUTED, WARNING
from netem.plots.phrases import counted


@dataclass(frozen=True)
class Headline:
    """message: what is to be seen, made from the results, so that it cannot become false. shown: what is drawn."""

    message: str
    shown: str


Draw = Callable[[Figure, Mapping[str, Any]], Headline]
"""Draws `results` of results.json and says what is to be seen. It may set the figure's height, not its layout."""

WIDTH_INCHES, HEIGHT_INCHES, DPI = 10.0, 5.2, 110
"""In half its size, 550 pixels wide, text is still nine pixels high."""

_STYLE: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 12.0,
    "axes.labelsize": 12.0,
    "axes.titlesize": 13.0,
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 1.2,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 12.0,
    "ytick.labelsize": 12.0,
    "grid.color": GRID,
    "grid.linewidth": 1.2,
    "lines.linewidth": 2.6,
    "lines.markersize": 8.0,
    "errorbar.capsize": 3.0,
    "legend.frameon": False,
    "legend.fontsize": 12.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "outrider",
}

_MESSAGE_POINTS, _SHOWN_POINTS = 16.0, 12.0
_MESSAGE_CHARACTERS, _SHOWN_CHARACTERS = 78, 116
_LINE = 1.35
_EDGE_INCHES = 0.12
_POINTS_PER_INCH = 72.0

HEADLINE = "headline"
"""The group id of a headline's lines."""


def draw_picture(draw: Draw, results: Mapping[str, Any], faults: Sequence[str] = ()) -> Figure:
    """The plot below its headline. Raises KeyError or the like where the results lack what it shows."""
    with rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES), dpi=DPI)
        headline = draw(figure, results)
        _write_headline(figure, headline, faults)
        return figure


def write_png(draw: Draw, results: Mapping[str, Any], faults: Sequence[str], path: Path) -> None:
    """Writes the plot with its headline. What it was drawn from is in its description. Raises OSError."""
    with rc_context(_STYLE):
        draw_picture(draw, results, faults).savefig(path, metadata={"Description": results_digest(results, faults)})


def svg_of(draw: Draw, results: Mapping[str, Any]) -> tuple[Headline, str]:
    """The headline, and the plot without it as a document of its own; equal for equal results."""
    with rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES))
        FigureCanvasSVG(figure)  # by whose texts' sizes it is laid out
        headline = draw(figure, results)
        # Here, because `savefig` would draw the figure once more for it.
        ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06).execute(figure)
        written = BytesIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return headline, written.getvalue().decode("utf-8")


def results_digest(results: Mapping[str, Any], faults: Sequence[str]) -> str:
    """Of what a plot is drawn from, so that one that is stale is noticed."""
    return hashlib.sha256(json.dumps([results, list(faults)], sort_keys=True).encode()).hexdigest()


def _write_headline(figure: Figure, headline: Headline, faults: Sequence[str]) -> None:
    """Above the plot, for which the figure grows."""
    lines = [
        *_lines(headline.message, _MESSAGE_CHARACTERS, _MESSAGE_POINTS, INK, "bold"),
        *_lines(headline.shown, _SHOWN_CHARACTERS, _SHOWN_POINTS, MUTED, "normal"),
    ]
    if faults:
        reason = f"This run counts as not valid, for {counted(len(faults), 'reason')}: see table.md."
        lines += _lines(reason, _SHOWN_CHARACTERS, _SHOWN_POINTS, WARNING, "bold")
    body = figure.get_figheight()
    head = _EDGE_INCHES + sum(style["fontsize"] for _, style in lines) * _LINE / _POINTS_PER_INCH
    figure.set_figheight(body + head)
    at = body + head - _EDGE_INCHES
    for text, style in lines:
        figure.text(_EDGE_INCHES / WIDTH_INCHES, at / (body + head), text, va="top", ha="left", gid=HEADLINE, **style)
        at -= style["fontsize"] * _LINE / _POINTS_PER_INCH
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08, rect=(0, 0, 1, body / (body + head))))


def _lines(text: str, characters: int, points: float, colour: str, weight: str) -> list[tuple[str, dict[str, Any]]]:
    style = {"fontsize": points, "color": colour, "fontweight": weight}
    return [(line, style) for line in textwrap.wrap(text, characters)]
