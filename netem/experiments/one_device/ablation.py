"""`ablation`: the gain of each part of a draft model, with chains of four tokens (Table 5 of Mixture of Attentions).

The rows are draft models that differ in one part from the row before, in the order of `--draft`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from common.protocol.errors import MisuseError
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.bench import CHAIN, ask_all, open_bench
from netem.experiments.one_device.compared_drafts import ComparedDraft, find_drafts, find_model_paths
from netem.experiments.one_device.costs import IN_WORDS
from netem.experiments.one_device.intervals import Estimate
from netem.experiments.one_device.prompts import Workload, choose, in_words
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


FULL = Workload(prompts=8, tokens=96)
QUICK = Workload(prompts=1, tokens=24)


@dataclass(frozen=True)
class AblationRow:
    """One draft model, with its ratios to the row before and to the first row."""

    name: str
    score: Score
    over_before: Estimate
    over_first: Estimate
    speed_over_before: Estimate


async def measure(request: Request, advance: Advance) -> Report:
    """Raises MisuseError with fewer than two rows."""
    workload = QUICK if request.quick else FULL
    paths, drafts = find_model_paths(request), find_drafts(request, with_weightless=False)
    if len(drafts) < 2:
        raise MisuseError(
            "an ablation compares at least two drafts; train them one part apart with `outrider-train` and name them "
            "in the order of the rows: --draft eagle --draft ca --draft lsa --draft n1 --draft n3"
        )
    prompts = choose(paths.prompts, workload.prompts, request.seed)
    with open_bench(paths, drafts) as bench:
        systems = {each.name: partial(bench.answer, each, CHAIN, new_tokens=workload.tokens) for each in drafts}
        answers = await ask_all(systems, bench.tokenised(prompts), advance, request.steps)
        ablation_rows = make_ablation_rows(drafts, answers, bench.layers, request.seed)
    return make_report(ablation_rows, {name: len(chosen) for name, chosen in prompts.items()}, workload.tokens)


def make_ablation_rows(
    drafts: Sequence[ComparedDraft], answers: Mapping[str, Answers], layers: int, seed: int
) -> list[AblationRow]:
    bootstrap = bootstrap_for(answers[drafts[0].name], seed)
    accepted = [accepts(answers[each.name]) for each in drafts]
    speeds = [speed_ups(answers[each.name], each.depth, layers, each.forwards) for each in drafts]
    return [
        AblationRow(
            name=each.name,
            score=make_score(answers[each.name], each.depth, layers, bootstrap, each.forwards),
            over_before=bootstrap.ratio(accepted[index], accepted[max(0, index - 1)]),
            over_first=bootstrap.ratio(accepted[index], accepted[0]),
            speed_over_before=bootstrap.ratio(speeds[index], speeds[max(0, index - 1)]),
        )
        for index, each in enumerate(drafts)
    ]


def make_report(ablation_rows: Sequence[AblationRow], sizes: Mapping[str, int], max_new_tokens: int) -> Report:
    return Report(
        title="What each part of the draft adds",
        headings=HEADINGS,
        rows=[_cells(index, each_row) for index, each_row in enumerate(ablation_rows)],
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
                each_row.name: {
                    **each_row.score.as_dict(),
                    "accept_length_over_before": each_row.over_before.as_dict(),
                    "accept_length_over_first": each_row.over_first.as_dict(),
                    "speed_over_before": each_row.speed_over_before.as_dict(),
                }
                for each_row in ablation_rows
            },
        },
    )


def _cells(index: int, each_row: AblationRow) -> list[str]:
    return [
        each_row.name,
        str(each_row.score.accept),
        str(each_row.over_before) if index else "",
        str(each_row.over_first) if index else "",
        f"{each_row.score.speed_up.value:.2f}x",
        str(each_row.speed_over_before) if index else "",
        f"{each_row.score.tokens_per_second:.1f}",
    ]
