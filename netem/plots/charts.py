"""Forms that several plots share: horizontal bars, dots with intervals, curves, verdicts, legends below the data.

Knows looks and axes, no experiment.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netem.plots.palette import BAD, DOUBTFUL, GOOD, INK, MUTED, OURS, PAPER, Look, system_look

Estimate = Mapping[str, float]
"""value, low and high: of a 95% interval."""

Style = dict[str, Any]
"""How matplotlib is to draw a mark, a line or a text."""

VERDICTS = {"identical": GOOD, "near-tie": DOUBTFUL, "different": BAD}
_NUMBER_SHARE = 0.12
"""The share of a logarithmic axis that a number of three digits needs."""


def grid_of(axes: Axes, along: str) -> None:
    """Lines behind the data across the axis `along`, which alone has values; no ticks at the names on the other."""
    axes.grid(axis=along)  # type: ignore[arg-type]
    axes.tick_params(axis="y" if along == "x" else "x", length=0)
    axes.spines["left" if along == "x" else "bottom"].set_visible(False)


def name_rows(axes: Axes, names: Sequence[str], looks: Sequence[Look] | None = None) -> None:
    """Names on the left from top to bottom, at 0, 1, 2 and so on; those of Outrider's own systems in bold green."""
    axes.set_yticks(range(len(names)), [look.label for look in looks] if looks else names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    mark_ours(axes.get_yticklabels(), looks or ())
    grid_of(axes, "x")


def mark_ours(texts: Sequence[Any], looks: Sequence[Look]) -> None:
    """Outrider's own systems in bold green."""
    for text, look in zip(texts, looks, strict=False):
        if look.is_ours:
            text.set(fontweight="bold", color=OURS)


def system_bars(axes: Axes, values: Mapping[str, float], most: float) -> None:
    """A horizontal bar for each system with its value at the end. most: the largest of all panels."""
    looks = [system_look(name) for name in values]
    bars = axes.barh(range(len(values)), list(values.values()), 0.74, color=[look.colour for look in looks])
    name_rows(axes, list(values), looks)
    mark_ours(axes.bar_label(bars, fmt="{:.0f}", padding=4), looks)
    room_for_labels(axes, most)


def room_for_labels(axes: Axes, most: float, share: float = 0.22) -> None:
    """From 0 to the largest value, and so much more for what is written behind it."""
    axes.set_xlim(0, (1 + share) * (most or 1.0))


def dot(axes: Axes, row: float, estimate: Estimate, colour: str, *, hollow: bool = False, **style: Any) -> None:
    """A value on a row, with its interval."""
    value = estimate["value"]
    reach = [[max(0.0, value - estimate["low"])], [max(0.0, estimate["high"] - value)]]
    axes.errorbar([value], [row], xerr=reach, fmt="none", ecolor=colour, elinewidth=2.2, capsize=4)
    fill = PAPER if hollow else colour
    look: Style = {"marker": "o", "markersize": 10.0} | style
    axes.plot([value], [row], linestyle="", markerfacecolor=fill, markeredgecolor=colour, markeredgewidth=2.2, **look)


def curve(axes: Axes, points: Mapping[float, float], look: Look, **style: Any) -> None:
    """The values of a system over what is on the x axis."""
    own = {"color": look.colour, "marker": look.marker, "label": look.label} | style
    axes.plot(list(points), list(points.values()), **own)


def doubling_axis(axes: Axes, ticks: Sequence[float]) -> None:
    """A logarithmic x axis with a tick at each measured place, in increasing order; of places whose numbers would touch
    the first has one."""
    axes.set_xscale("log", base=2)
    apart = max(1.1, (ticks[-1] / ticks[0]) ** _NUMBER_SHARE)
    numbered: list[float] = []
    for tick in ticks:
        if not numbered or tick > apart * numbered[-1]:
            numbered.append(tick)
    axes.set_xticks(ticks, [f"{tick:g}" if tick in numbered else "" for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="y")


def legend_below(figure: Figure, axes: Axes, columns: int, looks: Sequence[Look] = ()) -> None:
    """Below all panels, where no data can be. looks: of the entries, in order, where they are systems."""
    handles, labels = axes.get_legend_handles_labels()
    legend = figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)))
    mark_ours(legend.get_texts(), looks)


def key(axes: Axes, label: str, **style: Any) -> None:
    """An entry of the legend without data."""
    axes.plot([], [], label=label, **({"linestyle": ""} | style))


def occurring(colours: Mapping[str, str], tallies: Iterable[Mapping[str, float]]) -> dict[str, str]:
    """The kinds that are counted anywhere, with their colours."""
    counted = list(tallies)
    return {kind: colour for kind, colour in colours.items() if any(counts.get(kind, 0) for counts in counted)}


def stack(
    axes: Axes, tallies: Mapping[str, Mapping[str, float]], colours: Mapping[str, str], *, counts_inside: bool = True
) -> float:
    """A horizontal bar for each name, divided into the kinds that have a colour. Returns the length of the longest."""
    left = dict.fromkeys(tallies, 0.0)
    widest = max((sum(counts.get(kind, 0) for kind in colours) for counts in tallies.values()), default=0.0)
    for kind, colour in colours.items():
        sizes = [counts.get(kind, 0) for counts in tallies.values()]
        bars = axes.barh(range(len(sizes)), sizes, 0.74, left=list(left.values()), color=colour, label=kind)
        if counts_inside:
            labels = [f"{size:,}" if size > 0.06 * widest else "" for size in sizes]
            axes.bar_label(bars, labels, label_type="center", color="white", fontweight="bold")
        left = {name: left[name] + size for name, size in zip(tallies, sizes, strict=True)}
    name_rows(axes, list(tallies))
    return widest


def stacked_counts(
    figure: Figure, tallies: Mapping[str, Mapping[str, int]], colours: Mapping[str, str], thing: str
) -> None:
    """One panel of `stack`, with its legend."""
    axes = figure.subplots()
    axes.set_xlim(0, stack(axes, tallies, occurring(colours, tallies.values())) or 1)
    axes.set_xlabel(thing)
    legend_below(figure, axes, 4)


def beside(index: int, count: int, share: float = 0.6) -> float:
    """How far from the middle of its row the mark of number `index` is, where `count` share the row."""
    return share * ((index + 0.5) / count - 0.5)


def from_zero(axes: Axes) -> None:
    """The vertical axis begins at 0, with the usual room above the highest mark, so that no part of it is cut."""
    axes.update_datalim([(0.0, 0.0)], updatex=False)
    axes.autoscale_view(scalex=False)
    axes.set_ylim(bottom=0)


def line_at(axes: Axes, value: float, label: str = "") -> None:
    """A thin upright line at a value that others are compared with."""
    axes.axvline(value, color=MUTED, linewidth=1.8, linestyle=(0, (4, 3)), label=label, zorder=1)


def panels(figure: Figure, count: int, *, rows: int = 1, share_y: bool = True) -> list[Axes]:
    """Side by side, from left to right and top to bottom."""
    axes = list(figure.subplots(rows, -(-count // rows), sharey=share_y, squeeze=False).flat)
    for spare in axes[count:]:
        spare.remove()
    return axes[:count]


def percent_axis(axis: Any) -> None:
    """Ticks of shares in percent."""
    axis.set_major_formatter(lambda share, _: f"{100 * share:.4g}%")


def write_beside(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """A short text right of a place."""
    look = {"va": "center", "ha": "left", "color": INK, "textcoords": "offset points", "xytext": (8, 0)} | style
    axes.annotate(text, (x, y), **look)
