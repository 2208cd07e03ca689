"""Plots of answers beside a reference: identical or not, valid or not, and drawn from the right distribution."""

from collections.abc import Mapping
from math import sqrt
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from netem.plots.charts import (
    VERDICTS,
    Style,
    beside,
    key,
    legend_below,
    line_at,
    name_rows,
    room_for_labels,
    stacked_counts,
    write_beside,
)
from netem.plots.palette import BAD, DOUBTFUL, GOOD, INK, NEUTRAL, PAPER, SYSTEMS, system_look
from netem.plots.phrases import of_all, times
from netem.plots.picture import Headline

_ROW_INCHES = 0.4


def exactness(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A bar for each drafter and policy, divided by verdict."""
    return _verdicts(figure, results, "Greedy answers over public prompts, in real time")


def coupled(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """As `exactness`, of sampled answers."""
    shown = "Sampled answers by drafter, policy, link and sessions at a time; the reference has the same noise"
    return _verdicts(figure, results, shown)


def families(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A tile for each family, coloured by the worst of its answers."""
    columns = 6
    lines = -(-len(results) // columns)
    figure.set_figheight(0.62 * lines + 0.9)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(0, columns)
    axes.set_ylim(lines, 0)
    served = {name: _answers(family) for name, family in results.items() if not family["refusal"]}
    ends = dict.fromkeys(("all identical", "near-tie", "different", "refused"), 0)
    colours = dict(zip(ends, (GOOD, DOUBTFUL, BAD, NEUTRAL), strict=True))
    for place, name in enumerate(results):
        counts = served.get(name, {})
        worst = next((verdict for verdict in ("different", "near-tie") if counts.get(verdict)), "all identical")
        end = worst if counts else "refused"
        ends[end] += 1
        column, line = place % columns, place // columns
        axes.add_patch(Rectangle((column + 0.03, line + 0.06), 0.94, 0.88, color=colours[end]))
        share = f"{counts['identical']} of {sum(counts.values())}" if counts else "refused"
        style: Style = {"ha": "center", "va": "center", "color": "white", "fontweight": "bold"}
        axes.text(column + 0.5, line + 0.5, f"{name}\n{share}", fontsize=11, **style)
    for end, count in ends.items():
        if count:
            key(axes, f"{end} ({count})", marker="s", color=colours[end], markersize=12)
    legend_below(figure, axes, 4)
    same, total = _identical(served), sum(map(_total, served.values()))
    return Headline(
        f"{of_all(same, total).capitalize()} answers of {len(served)} families are identical to transformers' own",
        f"Greedy answers of random checkpoints, with and without a draft model; {ends['refused']} families are refused",
    )


def precision(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A bar for each target, dtype and kind of passes: the share of answers that differ."""
    tallies: dict[tuple[str, str, str], list[int]] = {}
    for each in results["compared"]:
        tally = tallies.setdefault((each["target"], each["dtype"], each["mode"]), [0, 0])
        tally[0] += each["different"]
        tally[1] += each["answers"]
    figure.set_figheight(_ROW_INCHES * len(tallies) + 1.2)
    axes = figure.subplots()
    shares = [100 * different / max(1, answers) for different, answers in tallies.values()]
    axes.barh(range(len(tallies)), shares, 0.7, color=BAD)
    for row, (share, (different, answers)) in enumerate(zip(shares, tallies.values(), strict=True)):
        write_beside(axes, share, row, f"{different} of {answers}")
    name_rows(axes, [f"{target}, {dtype}, {mode} passes" for target, dtype, mode in tallies])
    room_for_labels(axes, max(shares))
    axes.set_xlabel("answers that differ from plain decoding, %")
    modes = {
        mode: [sum(tally[at] for condition, tally in tallies.items() if condition[2] == mode) for at in (0, 1)]
        for mode in dict.fromkeys(condition[2] for condition in tallies)
    }
    parts = [f"{different} of {answers} answers of {mode} passes" for mode, (different, answers) in modes.items()]
    return Headline(
        f"In low precision {' and '.join(parts)} differ from plain decoding",
        "Answers with drafts against plain decoding through the same server, on the virtual clock",
    )


def ranks(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A bar for each drafter, policy and rule: answers that are those of one process, and others."""
    tallies = {
        f"{each['drafter']}, {each['policy']}, {each['rule']}": {
            "identical": each["identical"],
            "different": each["answers"] - each["identical"],
        }
        for each in results["compared"]
    }
    figure.set_figheight(_ROW_INCHES * len(tallies) + 1.4)
    stacked_counts(figure, tallies, VERDICTS, "answers")
    same, total = _identical(tallies), sum(map(_total, tallies.values()))
    largest = max(results["state_differences"].values())
    return Headline(
        f"Ranks give {of_all(same, total)} answers of one process; draft state differs by {largest:.2g} of its "
        "largest number at most",
        "A target divided among two processes, in float64 on the virtual clock",
    )


def law(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """A row for each timing: the most probable token's share of second and third tokens, with the 95% range."""
    expected, rows = results["law"][0], results["rows"]
    timings = list(dict.fromkeys(each["timing"] for each in rows))
    beside_each_other = list(dict.fromkeys((each["drafter"], each["shape"]) for each in rows))
    faces = dict(zip(dict.fromkeys(each["drafter"] for each in rows), (GOOD, PAPER), strict=True))
    figure.set_figheight(_ROW_INCHES * len(timings) + 1.8)
    axes = figure.subplots()
    reach = 1.96 * sqrt(expected * (1 - expected) / rows[0]["answers"])
    axes.axvspan(expected - reach, expected + reach, color=NEUTRAL, alpha=0.22, label="95% of exact samples")
    for each in rows:
        index = beside_each_other.index((each["drafter"], each["shape"]))
        row = timings.index(each["timing"]) + beside(index, len(beside_each_other))
        for place, marker in ((1, "o"), (2, "D")):
            counts = each["counts"][place]
            face = faces[each["drafter"]]
            axes.plot(counts[0] / sum(counts), row, marker, color=GOOD, markerfacecolor=face, markersize=6)
    name_rows(axes, timings)
    line_at(axes, expected, f"the target's law, {expected:g}")
    for drafter, face in faces.items():
        for token, marker in (("second", "o"), ("third", "D")):
            key(axes, f"{token} token, {drafter}", marker=marker, color=GOOD, markerfacecolor=face)
    axes.set_xlabel("share of the most probable token")
    legend_below(figure, axes, 3)
    tests = [p for each in rows for p in each["p_values"][1:]]
    kept = sum(p >= results["least_p_value"] for p in tests)
    pooled = [sum(each["counts"][place][0] for each in rows) for place in (1, 2)]
    answers = sum(each["answers"] for each in rows)
    shares = " and ".join(f"{count / answers:.4f}" for count in pooled)
    return Headline(
        f"{of_all(kept, len(tests)).capitalize()} tests accept the target's law; its {expected:g} is met by {shares}",
        f"Speculative sampling by the real drafting loop and server: {answers:,} answers by timing, tree and drafter",
    )


def conformance(figure: Figure, results: Mapping[str, Any]) -> Headline:
    """Two bars for each system that was timed: the speed of its constrained answers by that of free ones."""
    systems = results["systems"]
    timed = {name: of for name, of in systems.items() if "asked" in of}
    figure.set_figheight(0.8 * len(timed) + 1.8)
    axes = figure.subplots()
    kinds = (("JSON asked for", "asked", 1.0), ("code asked for", "not_asked", 0.4))
    ratios = {
        which: [of[which]["tokens_per_second"] / of[which]["unconstrained_tokens_per_second"] for of in timed.values()]
        for _, which, _ in kinds
    }
    for place, (label, which, alpha) in enumerate(kinds):
        for row, (name, ratio) in enumerate(zip(timed, ratios[which], strict=True)):
            system = name.partition(",")[0]
            colour = SYSTEMS[system].colour if system in SYSTEMS else system_look(system.partition(" ")[0]).colour
            bar = axes.barh(row + 0.4 * place - 0.2, ratio, 0.36, color=colour, alpha=alpha)
            axes.bar_label(bar, fmt="{:.2f}", padding=4)
        key(axes, label, marker="s", color=INK, markersize=12, alpha=alpha)
    name_rows(axes, list(timed))
    room_for_labels(axes, max(*ratios["asked"], *ratios["not_asked"]))
    line_at(axes, 1.0)
    axes.set_xlabel("tokens per second of constrained answers, by those of free ones to the same prompts")
    legend_below(figure, axes, 2)
    answers, valid, invalid, same = (
        sum(of[name] for of in systems.values()) for name in ("answers", "valid", "invalid", "same")
    )
    return Headline(
        f"{of_all(valid, valid + invalid).capitalize()} finished answers are valid, {of_all(same, answers)} the same "
        f"whatever drafts; {times(ratios['asked'], '{:.2f}')} as fast where JSON is asked for",
        "Answers that JSON schemas constrain, on the virtual clock; prompts ask for the JSON, or for code instead",
    )


def _verdicts(figure: Figure, tallies: Mapping[str, Mapping[str, int]], shown: str) -> Headline:
    figure.set_figheight(_ROW_INCHES * len(tallies) + 1.5)
    stacked_counts(figure, tallies, VERDICTS, "answers")
    same, total = _identical(tallies), sum(map(_total, tallies.values()))
    return Headline(f"{of_all(same, total).capitalize()} answers are identical to transformers' own", shown)


def _answers(family: Mapping[str, Any]) -> dict[str, int]:
    """The verdicts of a family's answers with all drafters."""
    tallies = [tally for name, tally in family.items() if name != "refusal"]
    return {verdict: sum(tally.get(verdict, 0) for tally in tallies) for verdict in VERDICTS}


def _identical(tallies: Mapping[str, Mapping[str, int]]) -> int:
    return sum(counts["identical"] for counts in tallies.values())


def _total(counts: Mapping[str, int]) -> int:
    """The answers that were judged."""
    return sum(counts.get(verdict, 0) for verdict in VERDICTS)
