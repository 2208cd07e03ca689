"""Plots of draft models on one device: what they are worth, and what that depends on."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from netem.plots.charts import (
    VERDICTS,
    Style,
    beside,
    curve,
    dot,
    doubling_axis,
    key,
    legend_below,
    line_at,
    name_rows,
    occurring,
    panels,
    percent_axis,
    room_for_labels,
    stack,
    write_beside,
)
from netem.plots.palette import DOUBTFUL, DRAFTS, GOOD, INK, MUTED, NEUTRAL, PAPER, Look, draft_colour, is_combined
from netem.plots.phrases import joined, of_all, times
from netem.plots.picture import Headline

_ROW_INCHES = 0.36


def single_device(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A row for each draft model, the best first: accept length in the mean and by category, and speed-up."""
    drafts = dict(sorted(results["drafts"].items(), key=lambda item: -item[1]["accept_length"]["value"]))
    figure.set_figheight(_ROW_INCHES * len(drafts) + 1.5)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    for row, (name, score) in enumerate(drafts.items()):
        colour = draft_colour(name)
        for of in score["categories"].values():
            left.plot(of["accept_length"]["value"], row + 0.34, "|", color=MUTED, markersize=6, markeredgewidth=2)
        for axes, measured in ((left, "accept_length"), (right, "speed_up")):
            dot(axes, row, score[measured], colour, hollow=is_combined(name))
        write_beside(right, score["speed_up"]["high"], row, f"{score['speed_up']['value']:.2f}")
    for axes in (left, right):
        name_rows(axes, list(drafts))
        axes.set_xlim(left=0)
        line_at(axes, 1.0)
    right.margins(x=0.14)
    right.set_xlim(left=0)
    left.set_xlabel("accept length, tokens per pass")
    right.set_xlabel("speed-up at stated costs")
    key(left, "mean of all categories, 95% interval", marker="o", color=INK, markersize=10)
    key(left, "each category", marker="|", color=MUTED, markersize=6, markeredgewidth=2)
    key(left, "plain decoding", linestyle=(0, (4, 3)), color=MUTED, linewidth=1.8)
    legend_below(figure, left, 3)
    longest = next(iter(drafts))
    fastest = max(drafts, key=lambda name: drafts[name]["speed_up"]["value"])
    both = (
        f"'{longest}' has the longest accept length ({drafts[longest]['accept_length']['value']:.1f}), "
        f"'{fastest}' the largest speed-up ({drafts[fastest]['speed_up']['value']:.2f})"
    )
    one = (
        f"'{longest}' drafts best: accept length {drafts[longest]['accept_length']['value']:.1f}, "
        f"{drafts[longest]['speed_up']['value']:.2f} times as fast as plain decoding"
    )
    return Headline(one if longest == fastest else both, "Each draft model in lock-step rounds on one device, greedy")


def weights(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A row for each draft model: the accept length in few bits divided by that of its weights as they are."""
    scores = [each for each in results["drafts"] if each["weights"] in results["mean_ratio"]]
    names, modes = list(dict.fromkeys(each["draft"] for each in scores)), list(results["mean_ratio"])
    figure.set_figheight(0.5 * len(names) + 1.5)
    axes = figure.subplots()
    markers = dict(zip(modes, "oDsv", strict=False))
    for each in scores:
        row = names.index(each["draft"]) + beside(modes.index(each["weights"]), len(modes))
        dot(axes, row, each["ratio"], draft_colour(each["draft"]), marker=markers[each["weights"]])
    name_rows(axes, names)
    line_at(axes, 1.0)
    percent_axis(axes.xaxis)
    axes.set_xlabel("accept length against weights as they are; lines are 95% intervals")
    for mode, marker in markers.items():
        key(axes, mode, marker=marker, color=INK)
    legend_below(figure, axes, len(modes))
    kept = joined([f"{mode} weights keep {100 * ratio:.1f}%" for mode, ratio in results["mean_ratio"].items()])
    return Headline(f"{kept} of the accept length", "Mean over draft models of the ratio, on the same prompts, greedy")


def ablation(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A bar for each row of the table, with its ratio to the one before."""
    rows = results["rows"]
    figure.set_figheight(0.45 * len(rows) + 1.2)
    axes = figure.subplots()
    for row, (name, score) in enumerate(rows.items()):
        length, ratio = score["accept_length"], score["accept_length_over_before"]["value"]
        dot(axes, row, length, draft_colour(name))
        write_beside(axes, length["high"], row, f"{length['value']:.2f}" + (f", ×{ratio:.2f}" if row else ""))
    name_rows(axes, list(rows))
    axes.margins(x=0.16)
    axes.set_xlabel("accept length with a chain; lines are 95% intervals; ×: over the row before")
    lengths = {name: score["accept_length"]["value"] for name, score in rows.items()}
    names = list(rows)
    step = max(names[1:], key=lambda name: rows[name]["accept_length_over_before"]["value"])
    message = (
        f"From '{names[0]}' to '{names[-1]}' the accept length goes from {lengths[names[0]]:.1f} to "
        f"{lengths[names[-1]]:.1f}; the largest step is '{step}' "
        f"(×{rows[step]['accept_length_over_before']['value']:.2f})"
    )
    return Headline(message, "What each part of the draft adds, in the order of the table")


def quality(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A table in tints: the share of right answers by draft model and category."""
    drafts = results["drafts"]
    categories = list(next(iter(drafts.values()))["right"])
    figure.set_figheight(0.42 * len(drafts) + 1.4)
    axes = figure.subplots()
    shares = [[tally["right"][category] for category in categories] for tally in drafts.values()]
    axes.set_xlim(-0.5, len(categories) - 0.5)
    for row, of_draft in enumerate(shares):
        for column, share in enumerate(of_draft):
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, color=GOOD, alpha=0.6 * share, linewidth=0))
            axes.text(column, row, f"{100 * share:.0f}%", ha="center", va="center")
    name_rows(axes, list(drafts))
    axes.grid(visible=False)
    axes.set_xticks(range(len(categories)), [category.replace(", ", ",\n") for category in categories])
    axes.tick_params(axis="x", length=0)
    axes.spines["bottom"].set_visible(False)
    total = sum(tally.get(verdict, 0) for verdict in VERDICTS for tally in drafts.values())
    same = sum(tally["identical"] for tally in drafts.values())
    return Headline(
        f"{of_all(same, total).capitalize()} answers are the target's own to the token",
        "Right answers by draft model and kind of prompt, judged by tests",
    )


def trees(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A panel for the least breadth and one for the fastest tree's: speed-up over depth, of the best size."""
    drafts = results["drafts"]
    name, tree = max(
        ((name, tree) for name, scores in drafts.items() for tree in scores),
        key=lambda pair: pair[1]["speed_up"]["value"],
    )
    least = min(each["breadth"] for scores in drafts.values() for each in scores)
    breadths = list(dict.fromkeys((least, tree["breadth"])))
    all_panels = panels(figure, len(breadths))
    for axes, breadth in zip(all_panels, breadths, strict=True):
        for (draft, scores), marker in zip(drafts.items(), "osD^v<>phX*P" * 2, strict=False):
            best: dict[float, float] = {}
            for each in scores:
                if each["breadth"] == breadth:
                    best[each["depth"]] = max(best.get(each["depth"], 0.0), each["speed_up"]["value"])
            curve(axes, best, Look(draft, draft_colour(draft), marker))
        axes.set_xticks(sorted({each["depth"] for scores in drafts.values() for each in scores}))
        axes.grid(axis="y")
        axes.set_title(f"breadth {breadth}")
        axes.set_xlabel("drafted levels in a round")
    all_panels[0].set_ylabel("speed-up at stated costs")
    legend_below(figure, all_panels[0], 6)
    message = (
        f"The fastest tree is of '{name}', with breadth {tree['breadth']} and depth {tree['depth']}: "
        f"{tree['speed_up']['value']:.2f} times as fast as plain decoding"
    )
    return Headline(
        message, "Speed-up on one device by draft model, depth and breadth; of each the best number of nodes"
    )


_PARTS = {
    "state: hidden": DRAFTS["eagle"],
    "state: fused": DRAFTS["eagle3"],
    "state: lsa": DRAFTS["moa"],
    "state: last": DRAFTS["glide"],
    "state: kv": draft_colour("moa, N=3"),
    "tokens": NEUTRAL,
    "drafted nodes (up)": DOUBTFUL,
    "acknowledgements (up)": MUTED,
}
"""Draft state has the colour of a draft model that needs it."""


def messages(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A bar for each draft model, divided into what its bytes are."""
    measured = {name: _bytes_per_token(each) for name, each in results["measured"].items()}
    figure.set_figheight(_ROW_INCHES * len(measured) + 1.7)
    axes = figure.subplots()
    room_for_labels(axes, stack(axes, measured, occurring(_PARTS, measured.values()), counts_inside=False), 0.1)
    totals = {name: sum(parts.values()) for name, parts in measured.items()}
    for row, total in enumerate(totals.values()):
        write_beside(axes, total, row, f"{total:.0f}")
    axes.set_xlabel("bytes for each committed token that gets its draft state, both directions")
    legend_below(figure, axes, 3)
    least, most = min(totals, key=lambda name: totals[name]), max(totals, key=lambda name: totals[name])
    message = (
        f"A committed token with its draft state costs {totals[least]:.0f} bytes on the link with '{least}' and "
        f"{totals[most]:.0f} with '{most}'"
    )
    return Headline(message, "Bytes by kind, as written to the stream")


_STUDIES = {
    "rate": ("bytes for each token", "with {:g} bytes for each token"),
    "bits": ("bits for each number", "with {:g} bits"),
    "lag": ("newest positions lacking", "with {:g} newest positions lacking"),
    "gaps": ("share of the prompt lacking", "without {:.0%} of the prompt's state"),
    "order": ("link, Mbit/s", "over {:g} Mbit/s"),
}
"""What is on the axis, and how a place on it is said; a study that is not here goes by its name."""

_STATIC = ", static scales"
_PREFIX_FIRST = "prefix"
_CODEC = "learnt codec"
"""Of whose rates each has a draft model of its own; they are one curve."""


def states(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A panel for each study: the accept length that is left, over what arrives of the draft state."""
    points = [each for each in results["points"] if each["x"] is not None]
    figure.set_figheight(6.6)
    studies = {name: _STUDIES.get(name, (name, f"{name} {{:g}}")) for name in dict.fromkeys(p["study"] for p in points)}
    all_panels = panels(figure, len(studies), rows=2)
    drafts = list(dict.fromkeys(each["draft"] for each in points))
    for axes, (study, (label, _)) in zip(all_panels, studies.items(), strict=True):
        own = [each for each in points if each["study"] == study]
        curves: dict[tuple[str, str], dict[float, float]] = {}
        for each in own:
            draft = drafts[0] if each["what"] == _CODEC else each["draft"]
            curves.setdefault((draft, each["what"]), {})[each["x"]] = each["against_all_at_once"]["value"]
        for (draft, what), left in curves.items():
            second = what.endswith(_STATIC) or what in (_PREFIX_FIRST, _CODEC)
            curve(axes, left, Look(draft, draft_colour(draft)), linestyle="--" if second else "-")
        if study in ("rate", "bits", "order"):
            doubling_axis(axes, sorted({each["x"] for each in own}))
        axes.set_xlabel(label)
        axes.grid(axis="y")
        percent_axis(axes.yaxis)
    figure.supylabel("accept length that is left", fontsize=12)
    entries = figure.add_subplot(frameon=False)
    entries.set_axis_off()
    entries.set_in_layout(False)
    for draft in dict.fromkeys(each["draft"] for each in points if each["what"] != _CODEC):
        key(entries, draft, linestyle="-", color=draft_colour(draft))
    for line, meaning in (("-", "newest first, own scales"), ("--", "prefix first, static scales, learnt codec")):
        key(entries, meaning, linestyle=line, color=INK)
    legend_below(figure, entries, 4)
    parts = []
    for study, (_, said) in studies.items():
        places = {each["against_all_at_once"]["value"]: each["x"] for each in points if each["study"] == study}
        parts.append(f"{100 * min(places):.0f}% {said.format(places[min(places)])}")
    return Headline(
        f"Left of the accept length, at worst: {joined(parts)}",
        "Accept length against state that is whole and all there, by what arrives of it",
    )


def sampling(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A row for each draft model and temperature, a mark for each method."""
    rows = results["rows"]
    methods = list(dict.fromkeys(method for each in rows for method in each["accept_length"]))
    markers = dict(zip(methods, "oDs|^v", strict=False))
    figure.set_figheight(0.4 * len(rows) + 1.6)
    axes = figure.subplots()
    for row, each in enumerate(rows):
        colour = draft_colour(each["draft"])
        values = [estimate["value"] for estimate in each["accept_length"].values()]
        axes.plot([min(values), max(values)], [row, row], color=colour, linewidth=2, alpha=0.4)
        for method, estimate in each["accept_length"].items():
            first = method == methods[0]
            style: Style = {"markersize": 11 if first else 9, "markeredgewidth": 2.2}
            fill = colour if first else PAPER
            axes.plot(estimate["value"], row, markers[method], color=colour, markerfacecolor=fill, **style)
    name_rows(axes, [f"{each['draft']}, T = {each['temperature']:g}" for each in rows])
    axes.set_xlabel("accept length, tokens per pass")
    for method, marker in markers.items():
        fill = INK if method == methods[0] else PAPER
        key(axes, method, marker=marker, color=INK, markerfacecolor=fill, markeredgewidth=2.2)
    legend_below(figure, axes, 4)
    gains = [each["gain"]["value"] for each in rows]
    return Headline(
        f"Ranking candidates with the target's noise accepts {times(gains, '{:.2f}')} as many tokens as without it",
        "Where the target samples: shared noise, the draft's probabilities alone, and speculative sampling",
    )


def formula(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A panel for each rule: accept length of chains, measured and as the acceptance rate predicts it."""
    rows = results["rows"]
    rules = list(dict.fromkeys(row["rule"] for row in rows))
    all_panels = panels(figure, len(rules))
    for axes, rule in zip(all_panels, rules, strict=True):
        of_rule = {row["chain"]: row for row in rows if row["rule"] == rule}
        measured = {chain: row["accept_length"]["value"] for chain, row in of_rule.items()}
        predicted = {chain: row["predicted_accept_length"] for chain, row in of_rule.items()}
        curve(axes, measured, Look("measured", DRAFTS["independent"]))
        curve(axes, predicted, Look("predicted", MUTED), linestyle="--")
        axes.set_xticks(sorted(of_rule))
        axes.grid(axis="y")
        axes.set_title(rule)
        axes.set_xlabel("drafted tokens of a round")
    all_panels[0].set_ylabel("accept length")
    legend_below(figure, all_panels[0], 2)
    ratios = times((row["accept_length_over_predicted"] for row in rows), "{:.2f}")
    return Headline(
        f"Chains accept {ratios} as many tokens as the acceptance rate predicts",
        "Rounds with one chain of the draft `independent`, beside speculative decoding's own formula",
    )


def _bytes_per_token(measured: Mapping[str, Any]) -> dict[str, float]:
    """By part, for each committed token; of state, for each that got it."""
    tokens, down, up = measured["committed_tokens"], measured["bytes_down"], measured["bytes_up"]
    return {
        **{f"state: {kind}": size for kind, size in measured["state_bytes_per_committed_token"].items()},
        "tokens": down["tokens"] / tokens,
        "drafted nodes (up)": up.get("nodes", 0) / tokens,
        "acknowledgements (up)": up.get("acknowledgements", 0) / tokens,
    }
