"""Plots of what passes and draft models cost a machine, milliseconds beside what memory allows, and memory itself; and
of the time that a new user's machine takes."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from netem.plots.charts import Style, key, legend_below, name_rows, panels, room_for_labels, write_beside
from netem.plots.palette import BAD, INK, MUTED, NEUTRAL, OURS, SYSTEMS, draft_colour
from netem.plots.phrases import joined, span, times
from netem.plots.picture import Headline


def engine(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A panel for each number of K/V heads: milliseconds of a pass over the tokens of all contexts."""
    rows = [_fastest(each) for each in results["rows"] if each["rows"] == 1]
    heads = sorted({each["kv_heads"] for each in rows}, reverse=True)
    shortest = min(each["context"] for each in rows)
    all_panels = panels(figure, len(heads))
    alone, many = ("sessions", 1, "one session"), ("context", shortest, f"sessions of {shortest}")
    kinds = (
        ("Outrider", "ours_ms", OURS, "o", alone),
        ("Outrider", "ours_ms", SYSTEMS["eager"].colour, "D", many),
        ("transformers", "transformers_ms", MUTED, "s", alone),
        ("transformers", "transformers_ms", NEUTRAL, "s", many),
        ("memory's floor", "floor_ms", BAD, "", alone),
    )
    for axes, count in zip(all_panels, heads, strict=True):
        for whose, measured, colour, marker, (field, value, words) in kinds:
            own = [each for each in rows if each["kv_heads"] == count and each[field] == value]
            points = sorted((e["sessions"] * e["context"], e[measured]) for e in own if e[measured] is not None)
            style: Style = {"linestyle": ":" if measured == "floor_ms" else "-", "marker": marker}
            axes.plot(*zip(*points, strict=True), color=colour, label=f"{whose}, {words}", **style)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda tokens, _: f"{tokens:g}")
        axes.yaxis.set_major_formatter(lambda ms, _: f"{ms:g}")
        axes.grid()
        axes.set_title(f"{count} K/V heads")
        axes.set_xlabel("tokens of all contexts")
        axes.tick_params(axis="x", rotation=30)
    all_panels[0].set_ylabel("milliseconds of a pass")
    legend_below(figure, all_panels[0], 2)
    slower = [each["transformers_ms"] / each["ours_ms"] for each in rows if each["transformers_ms"] is not None]
    above = [each["ours_ms"] / each["floor_ms"] for each in rows]
    clock = results.get("clock", "processor time of one core")  # results of before there were others lack it
    clock, _, _ = clock.partition(",")  # behind it stands how it is read
    return Headline(
        f"A pass takes {times(above)} what memory allows; transformers takes {times(slower)} as long as ours",
        f"{clock[:1].upper()}{clock[1:]} for passes of random weights, one row a session",
    )


def _fastest(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the pass as a graph where that is faster."""
    return {**row, "ours_ms": min(ms for ms in (row["ours_ms"], row.get("replayed_ms")) if ms is not None)}


def sizes(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A row for each draft model of each target: the client's memory as measured, and as computed."""
    rows = [each for each in results["rows"] if each["measured"]]
    figure.set_figheight(0.36 * len(rows) + 1.6)
    axes = figure.subplots()
    for row, each in enumerate(rows):
        axes.barh(row, each["client_rss_mb"], 0.72, color=draft_colour(each["draft"]))
        axes.plot(each["client_mb_computed"], row, "|", color=INK, markersize=15, markeredgewidth=2.4)
        end = max(each["client_rss_mb"], each["client_mb_computed"])
        write_beside(axes, end, row, f"{each['client_rss_mb']:,.0f}")
    name_rows(axes, [", ".join(_distinct(each, rows)) for each in rows])
    room_for_labels(axes, max(max(each["client_rss_mb"], each["client_mb_computed"]) for each in rows), 0.1)
    axes.set_xlabel("client memory, MB")
    key(axes, "measured", marker="s", color=MUTED, markersize=12)
    key(axes, "computed", marker="|", color=INK, markersize=15, markeredgewidth=2.4)
    legend_below(figure, axes, 2)
    largest = max(rows, key=lambda each: each["server_rss_mb"])
    own = [each["client_rss_mb"] / 1000 for each in rows if each["target"] == largest["target"]]
    return Headline(
        f"A client of {largest['target']} takes {span(own)} GB of memory; its server "
        f"{largest['server_rss_mb'] / 1000:.1f} GB",
        f"Random weights in published shapes, a context of {results['context']:,} tokens, in real time",
    )


def _distinct(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What tells the row from the others."""
    fields = ("target", "dtype", "weights", "draft")
    return [row[field] for field in fields if field == "draft" or len({each[field] for each in rows}) > 1]


def from_wheel(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A bar for each step."""
    seconds = results["seconds"]
    figure.set_figheight(0.45 * len(seconds) + 1.2)
    axes = figure.subplots()
    axes.bar_label(axes.barh(range(len(seconds)), list(seconds.values()), 0.74, color=OURS), fmt="{:.0f}", padding=4)
    name_rows(axes, [name.replace("_", " ") for name in seconds])
    room_for_labels(axes, max(seconds.values()))
    axes.set_xlabel("seconds")
    edited = [agent.removesuffix("_edit") for agent, got in results["edited"].items() if got]
    return Headline(
        f"From the wheel to a file that {joined(edited) if edited else 'no agent'} edited: "
        f"{results['total_seconds']:.0f} seconds",
        "A new environment, a server, outrider serve and agents, one after the other on one machine",
    )
