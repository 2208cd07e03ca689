"""`weights`: accept lengths of every draft on one device with its weights as they are, in int8 and in int4, on the same
prompts.

It may not know how weights are quantised.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from common.weight_only.files import quantise_directory
from common.weight_only.modes import AS_IS, INT4, INT8, MODES, QUANTISED
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.bench import PAPER_TREE, Bench, Results, ask_all, open_bench
from netem.experiments.one_device.compared_drafts import ComparedDraft, find_drafts, find_model_paths
from netem.experiments.one_device.intervals import Estimate
from netem.experiments.one_device.prompts import Workload, choose, in_words
from netem.experiments.one_device.scores import EXPLAINED, accepts, bootstrap_for, differing

FULL = Workload(prompts=4, tokens=48)
QUICK = Workload(prompts=1, tokens=24)

MOST_LOST: Mapping[str, float] = {INT8: 0.01, INT4: 0.03}
"""The share of the accept length that each mode may lose."""

System = tuple[ComparedDraft, str]
"""A draft and a weights mode."""


@dataclass(frozen=True)
class WeightsScore:
    """`ratio`: of the accept length to that with the weights as they are; `different`: answers that are not the same as
    then."""

    draft: ComparedDraft
    weights: str
    accept: Estimate
    ratio: Estimate
    different: int


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL
    paths, drafts = find_model_paths(request), find_drafts(request, with_weightless=False)
    prompts = choose(paths.prompts, workload.prompts, request.seed)
    with open_bench(paths, drafts) as bench, _in_all_modes(bench) as benches:
        systems = {
            (draft, mode): partial(benches[mode].answer, draft, PAPER_TREE, new_tokens=workload.tokens)
            for draft in drafts
            for mode in MODES
        }
        answers = await ask_all(systems, bench.tokenised(prompts), advance, request.steps)
    sizes = {name: len(chosen) for name, chosen in prompts.items()}
    return make_report(make_rows(answers, request.seed), sizes, workload.tokens)


@contextmanager
def _in_all_modes(bench: Bench) -> Iterator[dict[str, Bench]]:
    with TemporaryDirectory(prefix="outrider-lab-") as folder:
        benches = {AS_IS: bench}
        for mode in QUANTISED:
            bundles = {own: Path(folder) / mode / str(index) for index, own in enumerate(bench.bundles)}
            for own, quantised in bundles.items():
                quantise_directory(bench.bundles[own], mode, quantised)
            benches[mode] = replace(bench, bundles=bundles)
        yield benches


def make_rows(answers: Results[System], seed: int) -> list[WeightsScore]:
    rows = []
    for (draft, mode), given in answers.items():
        plain = answers[draft, AS_IS]
        bootstrap = bootstrap_for(plain, seed)
        ratio = bootstrap.ratio(accepts(given), accepts(plain))
        rows.append(WeightsScore(draft, mode, bootstrap.mean(accepts(given)), ratio, differing(given, plain)))
    return rows


def make_report(rows: Sequence[WeightsScore], sizes: Mapping[str, int], max_new_tokens: int) -> Report:
    means = {
        mode: sum(row.ratio.value for row in rows if row.weights == mode) / sum(row.weights == mode for row in rows)
        for mode in QUANTISED
    }
    faults = [
        f"{mode} keeps {mean:.3f} of the accept length" for mode, mean in means.items() if mean < 1 - MOST_LOST[mode]
    ]
    return Report(
        title="Weights in few bits",
        headings=("draft", "weights", "accept length", "against as-is", "answers that differ"),
        rows=[(row.draft.name, row.weights, str(row.accept), _precise(row.ratio), str(row.different)) for row in rows],
        remarks=(
            EXPLAINED,
            f"Prompts held out from training: {in_words(sizes)}. Greedy, at most {max_new_tokens} tokens; a tree of "
            f"breadth {PAPER_TREE.breadth}, depth {PAPER_TREE.depth} and at most {PAPER_TREE.nodes} nodes.",
            f"Mean over drafts of the ratio to as-is: {_listed(means)}.",
        ),
        results={
            "prompts": dict(sizes),
            "mean_ratio": means,
            "drafts": [
                {
                    "draft": row.draft.name,
                    "weights": row.weights,
                    "accept_length": row.accept.as_dict(),
                    "ratio": row.ratio.as_dict(),
                    "different_answers": row.different,
                }
                for row in rows
            ],
        },
        faults=faults,
    )


def _listed(means: Mapping[str, float]) -> str:
    return ", ".join(f"{mode} {mean:.4f}" for mode, mean in means.items())


def _precise(ratio: Estimate) -> str:
    return f"{ratio.value:.3f} ({ratio.low:.3f}-{ratio.high:.3f})"
