"""Plots of links that break: what draft models write alone, how answers go on, and servers that are replaced."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from netem.plots.charts import (
    VERDICTS,
    beside,
    curve,
    dot,
    doubling_axis,
    from_zero,
    key,
    legend_below,
    line_at,
    name_rows,
    panels,
    percent_axis,
    room_for_labels,
    stack,
    stacked_counts,
    write_beside,
)
from netem.plots.palette import (
    BAD,
    DOUBTFUL,
    GOOD,
    INK,
    NEUTRAL,
    OURS,
    SYSTEMS,
    UNKNOWN,
    WORST,
    Look,
    draft_colour,
    is_combined,
)
from netem.plots.phrases import counted, joined, of_all
from netem.plots.picture import Headline


def disconnect(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A row for each draft model, a mark for each length after which the link was cut."""
    drafts, cuts = results["drafts"], list(results["api_client"])
    whole = results["target"]["pass_at_1"]["value"]
    rows = {**{name: each["cuts"] for name, each in drafts.items()}, "a client of an API": results["api_client"]}
    figure.set_figheight(0.62 * len(rows) + 1.5)
    axes = figure.subplots()
    markers = dict(zip(cuts, "osDv^", strict=False))
    for row, (name, by_cut) in enumerate(rows.items()):
        colour = draft_colour(name) if name in drafts else UNKNOWN
        for index, cut in enumerate(cuts):
            at = row + beside(index, len(cuts))
            style = {"marker": markers[cut], "markersize": 8}
            dot(axes, at, by_cut[cut]["pass_at_1"], colour, hollow=is_combined(name), **style)
    name_rows(axes, list(rows))
    line_at(axes, whole, f"the target ({100 * whole:.0f}%)")
    for cut, marker in markers.items():
        key(axes, f"cut after {cut} tokens", marker=marker, color=INK)
    percent_axis(axes.xaxis)
    axes.set_xlim(-0.02, 1.04)
    axes.set_xlabel("Python tasks that pass their tests; lines are 95% intervals")
    legend_below(figure, axes, 4)
    last = cuts[-1]
    best = max(drafts, key=lambda name: drafts[name]["cuts"][last]["pass_at_1"]["value"])
    left = drafts[best]["cuts"][last]["pass_at_1"]["value"]
    without = results["api_client"][last]["pass_at_1"]["value"]
    message = (
        f"Cut for good after {last} tokens, '{best}' alone still passes {100 * left:.0f}% of the tasks; a client of an "
        f"API {100 * without:.0f}%"
    )
    return Headline(
        message, f"{results['tasks']} tasks whose link is cut in mid-answer; the draft model writes on alone"
    )


def reconnect(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """Two panels over the length of the outage: tokens written alone, and those that the target confirms."""
    outages = results["outages"]
    drafts = list(dict.fromkeys(each["draft"] for each in outages))
    left, right = panels(figure, 2)
    for axes, measured, title in (
        (left, "provisional", "written alone"),
        (right, "survived", "confirmed by the target"),
    ):
        for draft, marker in zip(drafts, "osD^v<>phX*P" * 2, strict=False):
            own = {each["seconds"]: each[measured] for each in outages if each["draft"] == draft}
            curve(axes, own, Look(draft, draft_colour(draft), marker))
        lengths = sorted({each["seconds"] for each in outages})
        doubling_axis(axes, lengths)
        axes.set_title(title)
        axes.set_xlabel("length of the outage, seconds")
    left.set_ylabel("tokens")
    legend_below(figure, left, 4)
    longest = [each for each in outages if each["seconds"] == max(each["seconds"] for each in outages)]
    best = max(longest, key=lambda each: each["survived"])
    return Headline(
        f"Most is confirmed of what '{best['draft']}' writes alone: {best['survived']:.0f} of "
        f"{best['provisional']:.0f} tokens",
        f"Provisional tokens when the link is back, over {results['link']['name']} on the virtual clock",
    )


def torture(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A row for each kind of cut: the seconds until the answer goes on, from the median to the longest."""
    waits = {kind: spread for kind, spread in results["seconds"].items() if spread["count"]}
    figure.set_figheight(0.6 * len(waits) + 1.6)
    axes = figure.subplots()
    for row, spread in enumerate(waits.values()):
        axes.plot([spread["median"], spread["most"]], [row, row], color=GOOD, linewidth=2, alpha=0.5)
        axes.plot([spread["median"], spread["p95"]], [row, row], color=GOOD, linewidth=5)
        axes.plot(spread["median"], row, "o", color=GOOD, markersize=12)
        axes.plot(spread["most"], row, "|", color=GOOD, markersize=14, markeredgewidth=2.5)
        write_beside(axes, spread["most"], row, f"{spread['median']:.2f}, {spread['p95']:.1f}, {spread['most']:.1f} s")
    name_rows(axes, [f"{kind} ({spread['count']})" for kind, spread in waits.items()])
    longest = max(spread["most"] for spread in waits.values())
    room_for_labels(axes, longest)
    axes.set_xlim(left=-0.02 * longest)
    axes.set_xlabel("seconds from the link's return to the next final token: median, 95th percentile, longest")
    verdicts = [verdict for rule in results["verdicts"].values() for verdict in rule.items()]
    total = sum(count for _, count in verdicts)
    same = sum(count for name, count in verdicts if name == "identical")
    return Headline(
        f"{of_all(same, total).capitalize()} answers are the uninterrupted ones, with {results['reconnects']:,} "
        "reconnects",
        "Connections reset, silent or moved, and servers killed, at random moments; in real time",
    )


def flapping(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A bar for each kind of disconnection, divided by verdict."""
    groups = {kind: group for kind, group in results["groups"].items() if group["answers"]}
    figure.set_figheight(0.6 * len(groups) + 1.6)
    colours = {**VERDICTS, "broken off": WORST}
    stacked_counts(figure, {kind: group["verdicts"] for kind, group in groups.items()}, colours, "answers")
    of_groups = results["all"]
    same = of_all(of_groups["verdicts"].get("identical", 0), of_groups["answers"])
    return Headline(
        f"{same.capitalize()} answers are the uninterrupted ones; sessions resumed {of_groups['resumed']:,} times with "
        f"their K/V and were rebuilt {of_groups['rebuilt']:,} times",
        "Links that are back for moments only, on the virtual clock",
    )


def replicas(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A bar for each phase: answers that stayed, that moved with their replica, and what must not be."""
    tallies = {}
    for name, phase in results["phases"].items():
        moved = sum(each["had_cause"] for each in phase["reconnects"])
        without_cause = len(phase["reconnects"]) - moved
        wrong = {"without cause": without_cause, "failed": len(phase["failures"]), "different": phase["different"]}
        stayed = phase["answers"] - moved - sum(wrong.values())
        tallies[name] = {"undisturbed": stayed, "moved with their replica": moved} | wrong
    figure.set_figheight(0.62 * len(tallies) + 1.6)
    colours = {
        "undisturbed": GOOD,
        "moved with their replica": NEUTRAL,
        "without cause": DOUBTFUL,
        "failed": BAD,
        "different": WORST,
    }
    stacked_counts(figure, tallies, colours, "answers")
    phases = results["phases"].values()
    answers, different = sum(phase["answers"] for phase in phases), sum(phase["different"] for phase in phases)
    failures = sum(len(phase["failures"]) for phase in phases)
    return Headline(
        f"{counted(results['kills'], 'replica')} killed under load: of {answers:,} answers {failures} fail and "
        f"{different} differ",
        f"A replica's load differs by at most {results['uneven']:.1%} from the mean; a fair choice gives "
        f"{results['uneven_by_fair_choice']:.1%}",
    )


def rolling(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A bar for all answers, divided by verdict."""
    verdicts = results["verdicts"]
    figure.set_figheight(2.0)
    colours = {"identical": GOOD, "left": NEUTRAL, "different": WORST, "failed": BAD}
    stacked_counts(figure, {"answers": verdicts}, colours, "answers")
    moved = joined([f"{count} ({drain} s to drain)" for drain, count in results["moved"].items()])
    return Headline(
        f"{counted(results['restarts'], 'server')} replaced under load: {verdicts.get('failed', 0)} answers fail, "
        f"{verdicts.get('different', 0)} differ",
        f"'left': by their app in mid-answer. Streams that went on at the successor: {moved}",
    )


def soak(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """Resident memory of both processes over time."""
    axes = figure.subplots()
    looks = {"outriderd": Look("outriderd", OURS), "outrider serve": Look("outrider serve", SYSTEMS["eager"].colour)}
    for name, readings in results["readings"].items():
        look = looks[name]
        axes.plot(
            [each["seconds"] / 60 for each in readings], [each["bytes"] / 1e6 for each in readings], color=look.colour
        )
        last = readings[-1]
        share = f"{look.label}\n{100 * results['growth'][name]['share']:+.1f}%"
        write_beside(axes, last["seconds"] / 60, last["bytes"] / 1e6, share, color=look.colour, fontweight="bold")
    axes.margins(x=0)
    axes.grid(axis="y")
    from_zero(axes)
    axes.set_xlabel("minutes")
    axes.set_ylabel("resident memory, MB")
    verdicts = results["verdicts"]
    wrong = sum(count for name, count in verdicts.items() if name not in ("identical", "left"))
    grown = joined([f"{100 * each['share']:+.1f}% ({name})" for name, each in results["growth"].items()])
    return Headline(
        f"Of {sum(verdicts.values()):,} answers over a link that was cut {sum(results['cuts'].values())} times {wrong} "
        f"failed or differ; memory: {grown}",
        f"{results['seconds'] / 60:.0f} minutes of apps asking outrider serve, in real time",
    )


def apps(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A panel for each state of the link, a row for each app: what its calls ended in."""
    words = {"answered": GOOD, "told 503": NEUTRAL, "failed": BAD}
    names = list(next(iter(results.values())))
    tallies = {
        link: {name: _ends(of_link.get(name) or ()) for name in names if of_link.get(name)}
        for link, of_link in results.items()
    }
    figure.set_figheight(0.42 * len(names) + 1.6)
    all_panels = panels(figure, len(tallies))
    for axes, (link, of_link) in zip(all_panels, tallies.items(), strict=True):
        stack(axes, {name.replace("_", " "): of_link.get(name, {}) for name in names}, words)
        axes.set_title(link)
        axes.grid(visible=False)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
    legend_below(figure, all_panels[0], 3)
    parts = []
    for link, of_link in tallies.items():
        ends = {word: sum(tally[word] for tally in of_link.values()) for word in words}
        refused = f" and {ends['told 503']} told 503" if ends["told 503"] else ""
        parts.append(f"{ends['answered']} of {sum(ends.values())}{refused} ({link})")
    return Headline(
        f"Calls of real apps that are answered: {joined(parts)}", "Calls to outrider serve by app and state of the link"
    )


def _ends(outcomes: Any) -> dict[str, int]:
    """How many calls of an app were answered, told 503, or failed."""
    ends = {"answered": 0, "told 503": 0, "failed": 0}
    for each in outcomes:
        refused = each["status"] == 503 or " 503" in each["error"]
        ends["answered" if each["got"] else "told 503" if refused else "failed"] += 1
    return ends
