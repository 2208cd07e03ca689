"""`single-device`: every draft model in rounds on one device, by category (Table 2 of Mixture of Attentions)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.bench import PAPER_TREE, ask_all, open_bench
from netem.experiments.one_device.compared_drafts import ComparedDraft, find_drafts, find_model_paths
from netem.experiments.one_device.computing import device_name
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
    differing,
    make_score,
    tokens_per_second,
)

RIVAL = "eagle"
DIFFERENT_AT_MOST = 0.01
"""The share of answers that may differ from plain decoding's: near-ties, which `quality` tells from faults."""

_PLAIN = "none"


FULL = Workload(prompts=8, tokens=96)
ON_GPU = Workload(prompts=2, tokens=96)  # a minute or two
QUICK = Workload(prompts=1, tokens=24)


@dataclass(frozen=True)
class DraftScore:
    """One draft model. ratio: of its accept length to the rival's; None where the rival was not measured."""

    draft: ComparedDraft
    score: Score
    ratio: Estimate | None
    different: int


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL if request.device == "cpu" else ON_GPU
    paths, drafts = find_model_paths(request), find_drafts(request)
    prompts = choose(paths.prompts, workload.prompts, request.seed)
    with open_bench(paths, drafts, request.device) as bench:
        systems = {each.name: partial(bench.answer, each, PAPER_TREE, new_tokens=workload.tokens) for each in drafts}
        systems[_PLAIN] = partial(bench.plain, new_tokens=workload.tokens)
        answers = await ask_all(systems, bench.tokenised(prompts), advance, request.steps)
        layers = bench.layers
    references = answers.pop(_PLAIN)
    rows = make_rows(drafts, answers, references, layers, request.seed)
    sizes = {name: len(chosen) for name, chosen in prompts.items()}
    return make_report(rows, sizes, workload.tokens, tokens_per_second(references), device_name(request.device))


def make_rows(
    drafts: Sequence[ComparedDraft], answers: Mapping[str, Answers], references: Answers, layers: int, seed: int
) -> list[DraftScore]:
    bootstrap = bootstrap_for(references, seed)
    rival = next((accepts(answers[each.name]) for each in drafts if each.kind.name == RIVAL), None)
    return [
        DraftScore(
            draft=each,
            score=make_score(answers[each.name], each.depth, layers, bootstrap, each.forwards),
            ratio=None if rival is None else bootstrap.ratio(accepts(answers[each.name]), rival),
            different=differing(answers[each.name], references),
        )
        for each in drafts
    ]


def make_report(
    rows: Sequence[DraftScore], sizes: Mapping[str, int], max_new_tokens: int, plain: float, machine: str
) -> Report:
    """plain: tokens per second of decoding one by one, in `machine`'s own time."""
    count = sum(sizes.values())
    different = {row.draft.name: row.different for row in rows if row.different}
    return Report(
        title="Every draft on one device",
        headings=("draft", *sizes, "mean", "accept length", f"against {RIVAL}", "tokens/s here"),
        rows=[_cells(row) for row in rows],
        remarks=(
            f"In each category speed-up over decoding one by one, then accept length. {EXPLAINED}",
            f"Prompts held out from training: {in_words(sizes)}. Greedy, at "
            f"most {max_new_tokens} tokens; a tree of breadth {PAPER_TREE.breadth}, depth {PAPER_TREE.depth} and at "
            f"most "
            f"{PAPER_TREE.nodes} nodes in every round. {OWN_TREE}",
            f"Speed-ups are at stated costs: {IN_WORDS}; the prompt's own pass is left out. 'tokens/s here' is the own "
            f"time of {machine}, prompts included, where decoding one by one makes {plain:.1f}.",
            f"'against {RIVAL}' divides mean accept lengths on the same prompts.",
            _on_differences(different, count),
        ),
        results={
            "prompts": dict(sizes),
            "machine": machine,
            "plain_tokens_per_second_here": plain,
            "drafts": {
                row.draft.name: {
                    "kind": row.draft.kind.name,
                    "depth": row.draft.depth,
                    **row.score.as_dict(),
                    f"accept_length_against_{RIVAL}": row.ratio and row.ratio.as_dict(),
                    "different_answers": row.different,
                }
                for row in rows
            },
        },
        faults=[
            f"{number} of {count} answers with {name} differ from plain decoding"
            for name, number in different.items()
            if number > DIFFERENT_AT_MOST * count
        ],
    )


def _on_differences(different: Mapping[str, int], count: int) -> str:
    if not different:
        return "Every answer is, token for token, that of decoding one by one."
    counts = ", ".join(f"{number} with {name}" for name, number in different.items())
    return f"Of {count} answers these differ from decoding one by one, of which `quality` tells near-ties: {counts}."


def _cells(row: DraftScore) -> list[str]:
    score = row.score
    pairs = zip(score.speed_up_by_category.values(), score.accept_by_category.values(), strict=True)
    return [
        row.draft.name,
        *(f"{speed_up.value:.2f}x {accept.value:.2f}" for speed_up, accept in pairs),
        f"{score.speed_up.value:.2f}x",
        str(score.accept),
        "" if row.ratio is None else str(row.ratio),
        f"{score.tokens_per_second:.1f}",
    ]
