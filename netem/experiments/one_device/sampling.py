"""`sampling`: the accept length where the target samples, by three methods: the drafter ranks tokens with the target's
noise (shared noise), without it (probability alone), or proposals are judged by rejection (speculative sampling) or by
typical acceptance, which loses the target's distribution.

The first two give the same answers by construction for the same prompt and seed; only the proposals differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import torch

from common.drafters.calibration import DRAWN, NoiseTrust
from common.drafters.ranking import Rank, Ranking, ranking_for
from common.protocol.sampling import Sampling
from common.protocol.views import TreeView
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.acceptance import OfferOutcomes, OfferRecorder, Pairs, calibration_error, fit
from netem.experiments.one_device.bench import CHAIN, PAPER_TREE, Bench, TimedRounds, ask_all, open_bench
from netem.experiments.one_device.compared_drafts import ComparedDraft, find_drafts, find_model_paths
from netem.experiments.one_device.intervals import Estimate
from netem.experiments.one_device.prompts import Workload, choose, in_words
from netem.experiments.one_device.scores import EXPLAINED, OWN_TREE, Answers, accepts, bootstrap_for, differing

FULL = Workload(prompts=4, tokens=96)
QUICK = Workload(prompts=1, tokens=16)

TEMPERATURES = (0.7, 1.0)
SHARED, ALONE, REJECTION, CHAINS = "shared noise", "probability alone", "speculative", "speculative chain"
TYPICAL = "typical"
METHODS = (SHARED, ALONE, REJECTION, CHAINS, TYPICAL)
HEADINGS = ("draft", "temperature", SHARED, ALONE, "gain", REJECTION, CHAINS, TYPICAL)
_RULES = {SHARED: "coupled", ALONE: "coupled", REJECTION: "speculative", CHAINS: "speculative", TYPICAL: "typical"}


class SampledSystem(NamedTuple):
    draft: ComparedDraft
    temperature: float
    method: str

    def __str__(self) -> str:
        return f"{self.draft.name}, T={self.temperature}, {self.method}"


@dataclass(frozen=True)
class SamplingScore:
    draft: ComparedDraft
    temperature: float
    accept: Mapping[str, Estimate]  # by method
    gain: Estimate
    different: int


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL
    paths, drafts = find_model_paths(request), find_drafts(request)
    prompts = choose(paths.prompts, workload.prompts, request.seed)
    with open_bench(paths, drafts) as bench:
        outcomes = OfferOutcomes()
        systems = {
            system: _asker(bench, system, workload.tokens, request.seed, outcomes)
            for system in (
                SampledSystem(draft, temperature, method)
                for draft in drafts
                for temperature in TEMPERATURES
                for method in METHODS
            )
        }
        answers = await ask_all(systems, bench.tokenised(prompts), advance)
    rows = make_rows(answers, request.seed)
    return make_report(rows, outcomes, {name: len(chosen) for name, chosen in prompts.items()}, workload.tokens)


def by_probability(view: TreeView, children: int, columns: torch.Tensor | None, trust: NoiseTrust) -> Ranking[Any]:
    """The ranking of a drafter that knows the sampling but not its noise."""
    return ranking_for(replace(view, rule="greedy"), children, columns, trust)


def _asker(bench: Bench, system: SampledSystem, new_tokens: int, seed: int, outcomes: OfferOutcomes) -> Any:
    tree = CHAIN if system.method == CHAINS else PAPER_TREE
    recorder = OfferRecorder()
    ranks: dict[str, Rank] = {
        SHARED: recorder.rank,
        ALONE: by_probability,
        REJECTION: recorder.rank,
        CHAINS: ranking_for,
        TYPICAL: ranking_for,
    }
    rule = _RULES[system.method]

    def ask(tokens: Sequence[int]) -> TimedRounds:
        # The same seed for a prompt with every system.
        sampling = Sampling(system.temperature, seed=seed + sum(tokens))
        given = bench.answer(
            system.draft, tree, tokens, new_tokens, rule=rule, sampling=sampling, rank=ranks[system.method]
        )
        recorder.add_outcomes(tokens, given.rounds.tokens, outcomes)
        return given

    return ask


def make_rows(answers: Mapping[SampledSystem, Answers], seed: int) -> list[SamplingScore]:
    bootstrap = bootstrap_for(next(iter(answers.values())), seed)
    rows = []
    for draft, temperature in dict.fromkeys((system.draft, system.temperature) for system in answers):
        given = {method: answers[SampledSystem(draft, temperature, method)] for method in METHODS}
        spent = {method: accepts(each) for method, each in given.items()}
        rows.append(
            SamplingScore(
                draft,
                temperature,
                {method: bootstrap.mean(each) for method, each in spent.items()},
                bootstrap.ratio(spent[SHARED], spent[ALONE]),
                differing(given[SHARED], given[ALONE]),
            )
        )
    return rows


def make_report(
    rows: Sequence[SamplingScore], outcomes: OfferOutcomes, sizes: Mapping[str, int], max_new_tokens: int
) -> Report:
    different = sum(row.different for row in rows)
    return Report(
        title="Drafting where the target samples",
        headings=HEADINGS,
        rows=[
            [
                row.draft.name,
                f"{row.temperature}",
                *(str(row.accept[method]) for method in (SHARED, ALONE)),
                str(row.gain),
                *(str(row.accept[method]) for method in (REJECTION, CHAINS, TYPICAL)),
            ]
            for row in rows
        ],
        remarks=(
            f"Accept lengths. {EXPLAINED}",
            f"'{SHARED}' and '{ALONE}' are the rule `coupled` with the same seeds, the drafter ranking its tokens with "
            "the target's noise or without; 'gain' divides one by the other. In both the answers are the target's own.",
            f"'{REJECTION}' draws groups of siblings from the draft's distribution, '{CHAINS}' one token for each of "
            f"{CHAIN.depth} levels; `lookup` and `medusa` pick theirs, which counts as point masses.",
            f"'{TYPICAL}' accepts what is plausible, with Medusa's thresholds: its texts are not the target's own, and "
            "its accept lengths are those of other text.",
            f"At most {max_new_tokens} tokens of an answer; prompts held out from training: {in_words(sizes)}. A "
            f"tree of "
            f"breadth {PAPER_TREE.breadth}, depth {PAPER_TREE.depth}, at most {PAPER_TREE.nodes} nodes. {OWN_TREE}",
            _on_calibration(outcomes),
        ),
        results={
            "prompts": dict(sizes),
            "rows": [
                {
                    "draft": row.draft.name,
                    "temperature": row.temperature,
                    "accept_length": {method: estimate.as_dict() for method, estimate in row.accept.items()},
                    "gain": row.gain.as_dict(),
                }
                for row in rows
            ],
            "drawn_fit": {order: _as_dict(pairs) for order, pairs in outcomes.drawn.items()},
            "noise_weights": outcomes.trusts,
        },
        faults=[f"{different} coupled answers depend on how the drafter ranked"] if different else [],
    )


def _as_dict(pairs: Pairs) -> dict[str, float] | None:
    fitted = fit(pairs)
    return None if fitted is None else asdict(fitted)


def _on_calibration(outcomes: OfferOutcomes) -> str:
    """A remark on the calibration error of the drafters' probabilities."""
    said = {"candidates with noise": calibration_error(outcomes.candidates, [logp for logp, _ in outcomes.candidates])}
    for (order, pairs), curve in zip(outcomes.drawn.items(), DRAWN, strict=True):
        said[f"the {order} of drawn siblings"] = calibration_error(pairs, [curve.logp(x) for x, _ in pairs])
    errors = ", ".join(f"{error:.3f} for {name}" for name, error in said.items())
    return (
        "Mean distance of the probability that a drafter gave to a token from the share that was committed, over ten "
        f"bins: {errors}."
    )
