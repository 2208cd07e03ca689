"""Plots of one client's speed: systems over links, prompts and trees, and the virtual clock beside real time."""

from collections.abc import Mapping
from statistics import fmean, median
from typing import Any

from matplotlib.figure import Figure

from netem.plots.charts import (
    Style,
    beside,
    from_zero,
    grid_of,
    key,
    legend_below,
    line_at,
    mark_ours,
    name_rows,
    panels,
    percent_axis,
    room_for_labels,
    system_bars,
    write_beside,
)
from netem.plots.palette import INK, MUTED, OURS, PAPER, SYSTEMS, draft_colour, system_look
from netem.plots.phrases import joined, of_all, span, times
from netem.plots.picture import Headline

_CLOUD = "cloud decoding"


def network(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A panel for each link, a bar for each system."""
    speeds = _speeds(results)
    _draw_speeds(figure, speeds, {link: link for link in speeds})
    best = "auto"
    rivals = [name for name in next(iter(speeds.values())) if not system_look(name).is_ours]
    against = {link: of_link[best] / max(of_link[name] for name in rivals) for link, of_link in speeds.items()}
    message = (
        f"{system_look(best).label} is {times(of[best] / of[_CLOUD] for of in speeds.values())} as fast as cloud "
        f"decoding, and {times(against.values(), '{:.2f}')} as fast as the best baseline"
    )
    return Headline(message, f"Committed tokens per second of one client by link, {_costs(results)}")


def streaming(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """As `network`, in real time."""
    speeds = _speeds(results)
    titles = {link: f"{link}, {of['measured_rtt_ms']:.0f} ms" for link, of in results["links"].items()}
    _draw_speeds(figure, speeds, titles)
    best = {link: max(of, key=lambda name: of[name]) for link, of in speeds.items()}
    parts = []
    for name in dict.fromkeys(best.values()):
        won = [link for link, fastest in best.items() if fastest == name]
        gains = times(speeds[link][name] / speeds[link][_CLOUD] for link in won)
        parts.append(f"{system_look(name).label} over {joined(won)} ({gains} cloud decoding)")
    return Headline(
        f"Fastest: {'; '.join(parts)}",
        f"Tokens per second by link and its round trip; real time, {_costs(results)}",
    )


def beside_others(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A panel for each link, a bar for each system: at its own speed above, at the stated costs below."""
    links = results["links"]
    own, stated = (
        {link: {name: each[key] for name, each in of["systems"].items()} for link, of in links.items()}
        for key in ("tokens_per_second", "stated_tokens_per_second")
    )
    figure.set_figheight(7.0)
    all_panels = panels(figure, 2 * len(links), rows=2)
    for place, (title, speeds) in enumerate((("own speed", own), ("stated costs", stated))):
        most = max(speed for of_link in speeds.values() for speed in of_link.values())
        for axes, link in zip(all_panels[place * len(links) :], links, strict=False):
            system_bars(axes, speeds[link], most)
            axes.set_title(f"{link}, {title}")
    figure.supxlabel("tokens per second: medians above, of all answers together below", fontsize=12)
    fastest = {link: system_look(max(of, key=lambda name: of[name])).label for link, of in own.items()}
    at_costs = {link: system_look(max(of, key=lambda name: of[name])).label for link, of in stated.items()}
    message = (
        f"Fastest at its own speed: {joined(dict.fromkeys(fastest.values()))}; "
        f"at stated costs: {joined(dict.fromkeys(at_costs.values()))}"
    )
    return Headline(message, f"Streamed; {_costs(results)} (others: computed from their passes)")


def clients(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A bar for each way of asking."""
    runs = {name: run for name, run in results.items() if isinstance(run, dict) and "sessions_per_pass" in run}
    speeds = {name: run["committed_tokens"] / run["seconds"] for name, run in runs.items()}
    figure.set_figheight(2.6)
    axes = figure.subplots()
    bars = axes.barh(range(len(speeds)), list(speeds.values()), 0.6, color=SYSTEMS["eager"].colour)
    name_rows(axes, list(speeds))
    labels = [f"{speeds[name]:.0f} ({run['sessions_per_pass']:.1f} sessions a pass)" for name, run in runs.items()]
    axes.bar_label(bars, labels, padding=4)
    room_for_labels(axes, max(speeds.values()), 0.4)
    axes.set_xlabel("committed tokens per second, all clients")
    alone, together = (next(run for run in runs.values() if (run["clients"] > 1) is many) for many in (False, True))
    gain = alone["seconds"] / together["seconds"] * together["committed_tokens"] / alone["committed_tokens"]
    same = "the same answers" if results["identical"] else "other answers"
    message = f"{together['clients']} clients at once get {gain:.1f} times the tokens per second, and {same}"
    return Headline(message, f"The same prompts one after the other and at once, {_costs(results)}")


def clock(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A row for each run: the virtual clock's speed divided by real time's."""
    points = sorted(results["points"], key=lambda each: each["ratio"])
    figure.set_figheight(0.34 * len(points) + 1.5)
    axes = figure.subplots()
    for row, each in enumerate(points):
        look = system_look(each["system"])
        spread = [each["virtual"] / real for real in each["real"]]
        axes.plot([min(spread), max(spread)], [row, row], color=look.colour, linewidth=2.4)
        fill = look.colour if each["counts"] else PAPER
        mark: Style = {"marker": look.marker, "markersize": 10, "markeredgecolor": look.colour, "markeredgewidth": 2.2}
        axes.plot(each["ratio"], row, markerfacecolor=fill, **mark)
        write_beside(axes, max(spread), row, f"{each['ratio']:.2f}", xytext=(9, 0))
    name_rows(axes, [_clock_row(each) for each in points])
    mark_ours(axes.get_yticklabels(), [system_look(each["system"]) for each in points])
    line_at(axes, 1.0)
    axes.margins(x=0.1)
    axes.set_xlabel("virtual speed divided by the real one (line: its repetitions)")
    key(axes, "filled: real time kept its costs", marker="o", color=INK)
    key(axes, "hollow: it did not", marker="o", markerfacecolor=PAPER, markeredgewidth=2.2, color=INK)
    legend_below(figure, axes, 2)
    kept = [each["ratio"] for each in points if each["counts"]]
    message = (
        f"The virtual clock is {times(kept, '{:.2f}')} as fast as real time where that kept its costs "
        f"({of_all(len(kept), len(points))} runs)"
    )
    return Headline(message, f"Tokens per second, simulated and in real time over tun, {_costs(results)}")


def first_token(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A panel for each link, systems side by side for each length: medians, lines up to the 95th percentile."""
    places = results["places"]
    links = list(dict.fromkeys(place["link"] for place in places))
    names = list(places[0]["systems"])
    looks = [system_look(name) for name in names]
    figure.set_figheight(6.4)
    all_panels = panels(figure, len(links), rows=2, share_y=False)
    for axes, link in zip(all_panels, links, strict=True):
        here = [place for place in places if place["link"] == link]
        for position, (name, look) in enumerate(zip(names, looks, strict=True)):
            for index, place in enumerate(here):
                waited, at = place["systems"][name], index + beside(position, len(names), 0.8)
                middle, high = waited["median_seconds"], waited["p95_seconds"]
                axes.plot([at, at], [middle, high], color=look.colour, linewidth=2.2)
                label = "" if index else look.label
                style: Style = {"marker": look.marker, "markersize": 7, "linestyle": ""}
                axes.plot(at, middle, color=look.colour, label=label, **style)
        axes.set_xticks(range(len(here)), [str(place["length"]) for place in here])
        axes.set_title(link)
        from_zero(axes)
        grid_of(axes, "y")
        axes.set_xlabel("tokens of the prompt")
    figure.supylabel("seconds to the first token", fontsize=12)
    legend_below(figure, all_panels[0], len(names), looks)
    ours = [name for name, look in zip(names, looks, strict=True) if look.is_ours]
    ratios = [place["systems"][name]["median_against_cloud"] for place in places for name in ours]
    return Headline(
        f"Outrider's first token takes {times(ratios, '{:.2f}')} as long as cloud decoding's",
        f"Medians, lines up to the 95th percentile, by link and prompt; {_costs(results)}",
    )


def frontier(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A panel for each link: what each system commits per pass and per second; rounds of all lengths on one line."""
    links = results["links"]
    all_panels = panels(figure, len(links))
    for axes, (link, runs) in zip(all_panels, links.items(), strict=True):
        rounds = {}
        for name, run in runs.items():
            place, look = (run["accept_length"], run["tokens_per_second"]), system_look(name)
            _, _, levels = name.rpartition(", ")
            if levels.isdecimal():
                rounds[int(levels)] = place
            else:
                style: Style = {"marker": look.marker, "color": look.colour, "markersize": 13, "linestyle": ""}
                axes.plot(*place, label=look.label, zorder=3, **style)
        if rounds:
            look = SYSTEMS["lock-step moa"]
            lengths, speeds = zip(*(rounds[levels] for levels in sorted(rounds)), strict=True)
            axes.plot(lengths, speeds, color=look.colour, marker=look.marker, label=look.label)
        for levels in {min(rounds), max(rounds)} if rounds else ():
            write_beside(axes, *rounds[levels], f"{levels} levels", xytext=(0, -17), ha="center")
        axes.set_title(link)
        axes.margins(0.08)
        axes.set_xlim(left=0)
        from_zero(axes)
        axes.grid()
        axes.set_xlabel("committed tokens per pass")
    all_panels[0].set_ylabel("committed tokens per second")
    names = [name for name in next(iter(links.values())) if not name.rpartition(", ")[2].isdecimal()]
    legend_below(figure, all_panels[0], 4, [system_look(name) for name in names])
    best = {link: max(runs, key=lambda name: runs[name]["tokens_per_second"]) for link, runs in links.items()}
    parts = [
        f"{system_look(name).label} with {links[link][name]['tokens_per_second']:.0f} tokens/s at "
        f"{links[link][name]['accept_length']:.1f} tokens per pass over {link}"
        for link, name in best.items()
    ]
    return Headline(
        f"Fastest is {joined(parts)}",
        f"What a client gets against what a pass of the server yields, {_costs(results)}",
    )


def sets(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A panel for each link, a row for each kind of prompt: measured, and predicted as a bar across."""
    points = results["points"]
    links = list(dict.fromkeys(each["link"] for each in points))
    kinds = list(dict.fromkeys(each["category"] for each in points))
    systems = list(dict.fromkeys(each["system"] for each in points))
    all_panels = panels(figure, len(links))
    for axes, link in zip(all_panels, links, strict=True):
        name_rows(axes, kinds)
        for each in points:
            if each["link"] == link:
                look = system_look(each["system"])
                row = kinds.index(each["category"]) + beside(systems.index(each["system"]), len(systems), 0.88)
                measured = each["measured"]["tokens_per_second"]
                axes.plot([measured, each["predicted"]], [row, row], color=look.colour, linewidth=2.0)
                axes.plot(measured, row, color=look.colour, marker=look.marker, markersize=9)
                axes.plot(each["predicted"], row, marker="|", color=INK, markersize=13, markeredgewidth=2.4)
        axes.set_title(link)
        axes.set_xlim(left=0)
    all_panels[len(links) // 2].set_xlabel("committed tokens per second")
    for system in systems:
        look = system_look(system)
        key(all_panels[0], f"{look.label}, measured", marker=look.marker, color=look.colour)
    key(all_panels[0], "predicted", marker="|", color=INK, markersize=13, markeredgewidth=2.4)
    legend_below(figure, all_panels[0], 3, [system_look(system) for system in systems])
    speeds = {
        kind: median(each["measured"]["tokens_per_second"] for each in points if each["category"] == kind)
        for kind in kinds
    }
    fast, slow = max(speeds, key=lambda kind: speeds[kind]), min(speeds, key=lambda kind: speeds[kind])
    message = (
        f"Fastest on {fast}, slowest on {slow} ({speeds[fast] / speeds[slow]:.1f} times between their medians); "
        f"{times((each['ratio'] for each in points), '{:.2f}')} as fast as predicted"
    )
    return Headline(message, f"By link and kind of prompt, on the virtual clock, {_costs(results)}")


def controller(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A row for each link: what fixed trees reach of the best one's speed, and what the controller does."""
    points = results["points"]
    links = list(dict.fromkeys(each["link"] for each in points))
    systems = list(dict.fromkeys(each["system"] for each in points))
    figure.set_figheight(0.42 * len(links) + 1.5)
    axes = figure.subplots()
    name_rows(axes, links)
    for each in points:
        look = system_look(each["system"])
        row = links.index(each["link"]) + beside(systems.index(each["system"]), len(systems), 0.8)
        fixed = [tree["tokens_per_second"] for tree in each["sweep"]]
        axes.plot(
            [min(fixed) / max(fixed), 1], [row, row], color=look.colour, alpha=0.3, linewidth=7, solid_capstyle="butt"
        )
        axes.plot(each["ratio"], row, marker=look.marker, color=look.colour, markersize=9)
    for system in systems:
        look = system_look(system)
        key(axes, f"{look.label}, controller", marker=look.marker, color=look.colour)
    key(axes, "fixed trees, worst to best", linestyle="-", color=MUTED, alpha=0.4, linewidth=7)
    line_at(axes, 1.0)
    percent_axis(axes.xaxis)
    axes.set_xlabel("share of the best fixed tree's speed on that link")
    legend_below(figure, axes, 3, [system_look(system) for system in systems])
    return Headline(
        f"The controller reaches {span((100 * each['ratio'] for each in points), '{:.0f}')}% of what the best fixed "
        f"tree of {len(points[0]['sweep'])} does on each of {len(links)} links",
        f"Committed tokens per second on the virtual clock, {_costs(results)}",
    )


def draft_choice(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A row for each link and laptop: what each fixed draft reaches of the fastest one's speed, `auto`'s in a ring."""
    places = results["places"]
    figure.set_figheight(0.42 * len(places) + 1.5)
    axes = figure.subplots()
    name_rows(axes, [f"{each['link']}, {1000 * each['level_seconds']:g} ms a level" for each in places])
    for row, each in enumerate(places):
        means = {draft: fmean(of.values()) for draft, of in each["tokens_per_second"].items()}
        best = max(means.values())
        for draft, mean in means.items():
            axes.plot(mean / best, row, marker="o", color=draft_colour(draft), markersize=8)
        axes.plot(means[each["taken"]] / best, row, marker="o", color=OURS, markersize=14, fillstyle="none")
    for draft in dict.fromkeys(draft for each in places for draft in each["tokens_per_second"]):
        key(axes, draft, marker="o", color=draft_colour(draft))
    key(axes, "what `auto` takes", marker="o", color=OURS, markersize=12, fillstyle="none")
    line_at(axes, 1.0)
    percent_axis(axes.xaxis)
    axes.set_xlabel("share of the fastest draft's speed there, mean of all kinds of prompts")
    legend_below(figure, axes, 4)
    return Headline(
        f"`auto` takes {joined(dict.fromkeys(each['taken'] for each in places))}, with at least "
        f"{100 * results['least_ratio']:.0f}% of the best draft's speed with each kind of prompts",
        f"Committed tokens per second on the virtual clock, passes of {results['stated_costs']['pass_ms']:g} ms",
    )


def _speeds(results: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Tokens per second by link and system."""
    return {
        link: {name: run["tokens_per_second"] for name, run in of["systems"].items()}
        for link, of in results["links"].items()
    }


def _draw_speeds(figure: Figure, speeds: Mapping[str, Mapping[str, float]], titles: Mapping[str, str]) -> None:
    figure.set_figheight(0.36 * len(next(iter(speeds.values()))) + 1.1)
    most = max(max(of_link.values()) for of_link in speeds.values())
    all_panels = panels(figure, len(speeds))
    for axes, (link, of_link) in zip(all_panels, speeds.items(), strict=True):
        system_bars(axes, of_link, 1.12 * most)
        axes.set_title(titles[link])
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)


def _clock_row(point: Mapping[str, Any]) -> str:
    slower = "" if point["costs"] == 1 else f", costs ×{point['costs']}"
    clients_of = f"{point['clients']} client{'s' * (point['clients'] > 1)}"
    return f"{system_look(point['system']).label}; {point['link']}, {clients_of}{slower}"


def _costs(results: Mapping[str, Any]) -> str:
    stated = results["stated_costs"]
    return f"at stated costs: {stated['pass_ms']:g} ms a pass, {stated['draft_level_ms']:g} ms a drafted level"
