"""`ablation`: what each part of a draft adds, by chains of four (Table 5 of Mixture of Attentions).

The rows are drafts that were trained one part apart, in the order of `--draft`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from common.protocol.errors import MisuseError
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.bench import CHAIN, ask_all, open_bench
from netem.experiments.one_device.compared_drafts import ComparedDraft, find_drafts, find_model_paths
from netem.experiments.one_device.costs import IN_WORDS
from netem.experiments.one_device.intervals import Estimate
from netem.experiments.one_device.prompts import Extent, choose, in_words
from netem.experiments.one_device.scores import (
    EXPLAINED,
    OWN_TREE,
    Answers,
    Score,
    accepts,
    bootstrap_for,
    make_score,
    speed_ups,
)

HEADINGS = (
    "row",
    "accept length",
    "over the row before",
    "over the first",
    "speed-up",
    "speed over the row before",
    "tokens/s here",
)


FULL = Extent(prompts=8, tokens=96)
QUICK = Extent(prompts=1, tokens=24)


@dataclass(frozen=True)
class AblationStep:
    """A row beside the one before it and the first."""

    name: str
    score: Score
    over_before: Estimate
    over_first: Estimate
    speed_over_before: Estimate


async def measure(request: Request, advance: Advance) -> Report:
    """Raises MisuseError with fewer than two rows."""
    extent = QUICK if request.quick else FULL
    paths, drafts = find_model_paths(request), find_drafts(request, with_lookup=False)
    if len(drafts) < 2:
        raise MisuseError(
            "an ablation compares at least two drafts; train them one part apart with `outrider-train` and name them "
            "in the order of the rows: --draft eagle --draft ca --draft lsa --draft n1 --draft n3"
        )
    prompts = choose(paths.prompts, extent.prompts, request.seed)
    with open_bench(paths, drafts) as bench:
        systems = {each.name: partial(bench.answer, each, CHAIN, new_tokens=extent.tokens) for each in drafts}
        answers = await ask_all(systems, bench.tokenised(prompts), advance)
        steps = make_steps(drafts, answers, bench.layers, request.seed)
    return make_report(steps, {name: len(chosen) for name, chosen in prompts.items()}, extent.tokens)


def make_steps(
    drafts: Sequence[ComparedDraft], answers: Mapping[str, Answers], layers: int, seed: int
) -> list[AblationStep]:
    bootstrap = bootstrap_for(answers[drafts[0].name], seed)
    accepted = [accepts(answers[each.name]) for each in drafts]
    speeds = [speed_ups(answers[each.name], each.depth, layers) for each in drafts]
    return [
        AblationStep(
            name=each.name,
            score=make_score(answers[each.name], each.depth, layers, bootstrap),
            over_before=bootstrap.ratio(accepted[index], accepted[max(0, index - 1)]),
            over_first=bootstrap.ratio(accepted[index], accepted[0]),
            speed_over_before=bootstrap.ratio(speeds[index], speeds[max(0, index - 1)]),
        )
        for index, each in enumerate(drafts)
    ]


def make_report(steps: Sequence[AblationStep], sizes: Mapping[str, int], max_new_tokens: int) -> Report:
    return Report(
        title="What each part of the draft adds",
        headings=HEADINGS,
        rows=[_cells(index, step) for index, step in enumerate(steps)],
        remarks=(
            EXPLAINED,
            f"A chain of {CHAIN.depth} drafted tokens in every round, greedy, at most {max_new_tokens} tokens of an "
            f"answer. "
            f"{OWN_TREE} Prompts held out from training: {in_words(sizes)}.",
            f"Speed-ups over decoding one by one at stated costs: {IN_WORDS}. 'tokens/s here' is this machine's own "
            "time, for information.",
            "Ratios are of means on the same prompts, with their 95% intervals; a gain is one whose interval is above "
            "1.",
        ),
        results={
            "prompts": dict(sizes),
            "rows": {
                step.name: {
                    **step.score.as_dict(),
                    "accept_length_over_before": step.over_before.as_dict(),
                    "accept_length_over_first": step.over_first.as_dict(),
                    "speed_over_before": step.speed_over_before.as_dict(),
                }
                for step in steps
            },
        },
        draw=lambda axes: _draw(axes, steps),
    )


def _cells(index: int, step: AblationStep) -> list[str]:
    return [
        step.name,
        str(step.score.accept),
        str(step.over_before) if index else "",
        str(step.over_first) if index else "",
        f"{step.score.speed_up.value:.2f}x",
        str(step.speed_over_before) if index else "",
        f"{step.score.tokens_per_second:.1f}",
    ]


def _draw(axes: Any, steps: Sequence[AblationStep]) -> None:
    accepted = [step.score.accept for step in steps]
    heights = [estimate.value for estimate in accepted]
    below = [max(0.0, estimate.value - estimate.low) for estimate in accepted]
    above = [max(0.0, estimate.high - estimate.value) for estimate in accepted]
    names = [step.name.replace(", ", "\n") for step in steps]
    axes.bar_label(axes.bar(names, heights, 0.5, yerr=(below, above)), fmt="%.2f")
    axes.set_xlabel("draft, in the order of the table's rows")
    axes.set_ylabel(f"accept length, chain of {CHAIN.depth}; lines are 95% intervals")
    axes.spines[["top", "right"]].set_visible(False)
