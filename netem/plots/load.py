"""Plots of a server with many clients: load, capacity of one GPU and of a fleet, and what happens beyond it."""

from collections.abc import Mapping
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netem.plots.charts import (
    curve,
    doubling_axis,
    from_zero,
    key,
    legend_below,
    line_at,
    name_rows,
    panels,
    percent_axis,
    room_for_labels,
)
from netem.plots.palette import GOOD, INK, system_look
from netem.plots.phrases import joined, of_all, times
from netem.plots.picture import Headline

_CLOUD = "cloud decoding"
_ALWAYS = "always"
_WITH_ROUND_TRIPS = ("lan", "lte-drive")


def load(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """Two panels: latency over arrivals, and tokens per second of passes over clients."""
    left, right = panels(figure, 2, share_y=False)
    arriving, together = (
        {each["amount"]: each["systems"] for each in results["loads"] if each["of"] == of}
        for of in ("requests/s", "clients")
    )
    names = list(next(iter(arriving.values())))
    _draw_systems(left, {n: {at: of[n]["mean_latency_seconds"] for at, of in arriving.items()} for n in names})
    _draw_systems(right, {n: {at: of[n]["tokens_per_pass_second"] for at, of in together.items()} for n in names})
    left.set_xlabel("requests per second, Poisson")
    left.set_ylabel("mean seconds of an answer")
    right.set_xlabel("clients at once")
    right.set_ylabel("tokens per second of passes")
    legend_below(figure, left, 3, [system_look(name) for name in names])
    most = max(together)
    gains = [
        f"{together[most][name]['tokens_per_pass_second'] / together[most][_CLOUD]['tokens_per_pass_second']:.1f} "
        f"({name})"
        for name in names
        if system_look(name).is_ours
    ]
    return Headline(
        f"With {most} clients a second of passes makes {joined(gains)} times as many tokens as in cloud decoding",
        f"One server over {results['link']['name']}, on the virtual clock",
    )


def load_timed(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """Two panels over clients: tokens per second of one, and of all."""
    loads = {each["clients"]: each["systems"] for each in results["loads"]}
    names = list(next(iter(loads.values())))
    alone, together = panels(figure, 2, share_y=False)
    for axes, measured, words in (
        (alone, "tokens_per_second_of_a_client", "tokens per second of a client"),
        (together, "tokens_per_second_of_all", "tokens per second of all"),
    ):
        _draw_systems(axes, {name: {at: of[name][measured] for at, of in loads.items()} for name in names})
        axes.set_xlabel("clients at once")
        axes.set_ylabel(words)
    legend_below(figure, alone, 3, [system_look(name) for name in names])
    most = max(loads)
    best = max(names, key=lambda name: loads[most][name]["tokens_per_second_of_all"])
    return Headline(
        f"{most} clients get {loads[most][best]['tokens_per_second_of_all']:.0f} tokens/s together ({best})",
        f"In real time over {results['link']}, on {results['machine']}",
    )


def mixed(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """What long prompts and chats cost each other: a mark for each machine, kind of chats and number of readers."""
    cells = [cell for cell in results["cells"] if cell["long_prompts_at_once"]]
    promised = results["promised"]
    figure.set_figheight(0.42 * len(cells) + 1.6)
    left, right = panels(figure, 2)
    columns = (
        (left, "gap_p95_passes", promised["gap_passes"], "chats' p95 gap, in passes"),
        (
            right,
            "long_against_alone_and_share",
            promised["slower_than_share"],
            "long prompt's first token, × its share",
        ),
    )
    for axes, name, most, label in columns:
        bars = axes.barh(range(len(cells)), [cell[name] for cell in cells], 0.7, color=GOOD)
        name_rows(axes, [f"{cell['machine']}, {cell['chats']}, {cell['long_prompts_at_once']} long" for cell in cells])
        axes.bar_label(bars, fmt="{:.2f}", label_type="center", color="white", fontweight="bold")
        room_for_labels(axes, max(most, *(cell[name] for cell in cells)))
        line_at(axes, most)
        axes.set_xlabel(label)
    worst = promised["measured"]
    return Headline(
        f"Beside long prompts chats wait {worst['gap_passes']:.2f} passes for a token, and a long prompt's first token "
        f"takes {worst['slower_than_share']:.2f} times its share, at most",
        "95th percentile of gaps, chats beside long prompts, virtual clock; dashed: what is promised",
    )


def overload(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """Gaps between the tokens of those that are let in: median, and up to the 95th percentile."""
    loads = results["loads"]
    figure.set_figheight(2.4)
    axes = figure.subplots()
    for row, observed in enumerate(loads.values()):
        middle, high = (1000 * observed[name] for name in ("gap_median", "gap_p95"))
        axes.plot([middle, high], [row, row], color=GOOD, linewidth=3)
        axes.plot(middle, row, "o", color=GOOD, markersize=12)
        axes.plot(high, row, "|", color=GOOD, markersize=16, markeredgewidth=3)
        axes.annotate(
            f"{middle:.1f} to {high:.1f}", (high, row), xytext=(10, 0), textcoords="offset points", va="center"
        )
    name_rows(axes, [f"{count} clients, {observed['refused']} refusals" for count, observed in loads.items()])
    room_for_labels(axes, max(1000 * observed["gap_p95"] for observed in loads.values()))
    axes.set_xlabel("milliseconds from token to token: median, line to p95")
    refused = [observed for observed in loads.values() if observed["refused"]]
    refusals = "; ".join(
        f"{each['refused']} refusals came within {1000 * each['refused_p95']:.0f} ms (p95)" for each in refused
    )
    few, many = (int(count) for count in (min(loads, key=int), max(loads, key=int)))
    return Headline(
        f"With {many} clients for {few} places tokens come {results['slowdown']:.2f} times as slowly"
        + (f"; {refusals}" if refusals else ""),
        "Answers of the clients that are let in, in real time",
    )


def capacity(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """Two panels: tokens per second of a client over clients of one GPU, each on one link."""
    rows = [row for row in results["rows"] if row["asking"] == _ALWAYS and row["replicas"] == 1]
    names = list(dict.fromkeys(row["system"] for row in rows))
    speeds = {
        link: {
            name: {
                row["clients"]: row["tokens_s_client"]
                for row in rows
                if (row["link"], row["system"]) == (link, name) and row["tokens_s_client"] is not None
            }
            for name in names
        }
        for link in _WITH_ROUND_TRIPS
    }
    all_panels = panels(figure, len(speeds))
    for axes, (link, of_link) in zip(all_panels, speeds.items(), strict=True):
        _draw_systems(axes, of_link)
        axes.set_title(link)
        axes.set_xlabel("clients being answered at once")
    all_panels[0].set_ylabel("tokens per second of a client")
    legend_below(figure, all_panels[0], 3, [system_look(name) for name in names])
    link = next(iter(speeds))
    counts = sorted({clients for of in speeds[link].values() for clients in of})
    fastest = {
        clients: max((name for name in names if clients in speeds[link][name]), key=lambda n: speeds[link][n][clients])
        for clients in (counts[0], counts[-1])
    }
    parts = [
        f"{system_look(name).label} with {n} clients ({speeds[link][name][n]:.0f} tokens/s each)"
        for n, name in fastest.items()
    ]
    return Headline(
        f"Fastest on one GPU over {link}: {joined(parts)}",
        "The real policies on the virtual clock, with acceptance that was recorded from the models",
    )


def capacity_timed(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """Real time as marks, the simulation as lines."""
    compared = results["compared"]
    axes = figure.subplots()
    names = list(dict.fromkeys(each["system"] for each in compared))
    for name in names:
        own, look = [each for each in compared if each["system"] == name], system_look(name)
        curve(axes, {each["clients"]: each["simulated"] for each in own}, look, marker="")
        axes.plot([each["clients"] for each in own], [each["real"] for each in own], look.marker, color=look.colour)
    for label, style in (("real time", {"marker": "o"}), ("simulated", {"linestyle": "-"})):
        key(axes, label, color=INK, **style)
    doubling_axis(axes, sorted({each["clients"] for each in compared}))
    from_zero(axes)
    axes.set_xlabel(f"clients on {results['replicas']} replicas")
    axes.set_ylabel("tokens per second of a client")
    legend_below(figure, axes, 4, [system_look(name) for name in names])
    return Headline(
        f"The simulation is {times((each['ratio'] for each in compared), '{:.2f}')} as fast as real time",
        f"Costs that are {results['slower']:g} times the usual ones, so that the processor does not limit the run",
    )


def capacity_failures(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """For each system, which share of its sessions is served again so many seconds after their replica's death."""
    rows = [row for row in results["rows"] if row["waits_s"]]
    axes = figure.subplots()
    for row in rows:
        look, waits = system_look(row["system"]), sorted(row["waits_s"])
        shares = [place / len(waits) for place in range(1, len(waits) + 1)]
        axes.step(waits, shares, where="post", color=look.colour, label=look.label)
    percent_axis(axes.yaxis)
    axes.grid()
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("seconds from the death of a replica to the next commit")
    axes.set_ylabel("share of its sessions")
    if rows:
        legend_below(figure, axes, 3, [system_look(row["system"]) for row in rows])
    answers, different = (sum(row[name] for row in results["rows"]) for name in ("answers", "different"))
    waited = joined(
        [f"{median(row['waits_s']):.2f} s ({system_look(row['system']).label})" for row in rows] or ["none"]
    )
    return Headline(
        f"{of_all(answers - different, answers).capitalize()} answers are right though replicas die; median wait: "
        f"{waited}",
        f"Waits of the sessions of {sum(row['deaths'] for row in results['rows'])} replicas that die, virtual clock",
    )


def _draw_systems(axes: Axes, values: Mapping[str, Mapping[float, float]]) -> None:
    """A curve for each system over numbers of clients or requests, from 0."""
    for name, points in values.items():
        curve(axes, points, system_look(name), linestyle="--" if name.endswith("computed") else "-")
    doubling_axis(axes, sorted({at for points in values.values() for at in points}))
    from_zero(axes)
