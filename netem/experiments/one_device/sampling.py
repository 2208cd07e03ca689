"""`sampling`: what drafting pays where the target samples: with the noise that both share, by probability alone, and
by rejection.

The first two give the same answers by construction, prompt by prompt and seed by seed; only the proposals differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch

from common.drafters.calibration import DRAWN, NoiseTrust
from common.drafters.ranking import Rank, Ranking, ranking_for
from common.protocol.sampling import Sampling
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.acceptance import Outcomes, Pairs, Watch, calibration_error, fit
from netem.experiments.one_device.bench import CHAIN, PAPER_TREE, Bench, Measured, ask_all, open_bench
from netem.experiments.one_device.compared_drafts import ComparedDraft, find_drafts, find_model_paths
from netem.experiments.one_device.intervals import Estimate
from netem.experiments.one_device.prompts import Extent, choose, in_words
from netem.experiments.one_device.scores import EXPLAINED, OWN_TREE, Answers, accepts, bootstrap_for, differing

FULL = Extent(prompts=4, tokens=96)
QUICK = Extent(prompts=1, tokens=16)

TEMPERATURES = (0.7, 1.0)
SHARED, ALONE, REJECTION, CHAINS = "shared noise", "probability alone", "speculative", "speculative chain"
CONDITIONS = (SHARED, ALONE, REJECTION, CHAINS)
HEADINGS = ("draft", "temperature", SHARED, ALONE, "gain", REJECTION, CHAINS)


class System(NamedTuple):
    compared: ComparedDraft
    temperature: float
    condition: str

    def __str__(self) -> str:
        return f"{self.compared.name}, T={self.temperature}, {self.condition}"


@dataclass(frozen=True)
class SamplingRow:
    compared: ComparedDraft
    temperature: float
    accept: Mapping[str, Estimate]  # by condition
    gain: Estimate
    different: int


async def measure(request: Request, advance: Advance) -> Report:
    extent = QUICK if request.quick else FULL
    paths, drafts = find_model_paths(request), find_drafts(request)
    prompts = choose(paths.prompts, extent.prompts, request.seed)
    with open_bench(paths, drafts) as bench:
        outcomes = Outcomes()
        systems = {
            system: _asker(bench, system, extent.tokens, request.seed, outcomes)
            for system in (
                System(compared, temperature, condition)
                for compared in drafts
                for temperature in TEMPERATURES
                for condition in CONDITIONS
            )
        }
        answers = await ask_all(systems, bench.tokenised(prompts), advance)
    rows = make_rows(answers, request.seed)
    return make_report(rows, outcomes, {name: len(chosen) for name, chosen in prompts.items()}, extent.tokens)


def by_probability(
    rule: str, sampling: Sampling, children: int, columns: torch.Tensor | None, trust: NoiseTrust
) -> Ranking[Any]:
    """As a drafter ranks that knows the sampling and not its noise."""
    return ranking_for("greedy", sampling, children, columns, trust)


def _asker(bench: Bench, system: System, new_tokens: int, seed: int, outcomes: Outcomes) -> Any:
    tree = CHAIN if system.condition == CHAINS else PAPER_TREE
    watch = Watch()
    ranks: dict[str, Rank] = {SHARED: watch.rank, ALONE: by_probability, REJECTION: watch.rank, CHAINS: ranking_for}
    rule = "coupled" if system.condition in (SHARED, ALONE) else "speculative"

    def ask(tokens: Sequence[int]) -> Measured:
        # The same seed for a prompt whatever the system.
        sampling = Sampling(system.temperature, seed=seed + sum(tokens))
        given = bench.answer(
            system.compared, tree, tokens, new_tokens, rule=rule, sampling=sampling, rank=ranks[system.condition]
        )
        watch.judge(tokens, given.rounds.tokens, outcomes)
        return given

    return ask


def make_rows(answers: Mapping[System, Answers], seed: int) -> list[SamplingRow]:
    bootstrap = bootstrap_for(next(iter(answers.values())), seed)
    rows = []
    for compared, temperature in dict.fromkeys((system.compared, system.temperature) for system in answers):
        given = {condition: answers[System(compared, temperature, condition)] for condition in CONDITIONS}
        spent = {condition: accepts(each) for condition, each in given.items()}
        rows.append(
            SamplingRow(
                compared,
                temperature,
                {condition: bootstrap.mean(each) for condition, each in spent.items()},
                bootstrap.ratio(spent[SHARED], spent[ALONE]),
                differing(given[SHARED], given[ALONE]),
            )
        )
    return rows


def make_report(
    rows: Sequence[SamplingRow], outcomes: Outcomes, sizes: Mapping[str, int], max_new_tokens: int
) -> Report:
    different = sum(row.different for row in rows)
    return Report(
        title="Drafting where the target samples",
        headings=HEADINGS,
        rows=[
            [
                row.compared.name,
                f"{row.temperature}",
                *(str(row.accept[condition]) for condition in (SHARED, ALONE)),
                str(row.gain),
                *(str(row.accept[condition]) for condition in (REJECTION, CHAINS)),
            ]
            for row in rows
        ],
        remarks=(
            f"Accept lengths. {EXPLAINED}",
            f"'{SHARED}' and '{ALONE}' are the rule `coupled` with the same seeds, the drafter ranking its tokens with "
            "the target's noise or without; 'gain' divides one by the other. In both the answers are the target's own.",
            f"'{REJECTION}' draws groups of siblings from the draft's distribution, '{CHAINS}' one token for each of "
            f"{CHAIN.depth} levels; `lookup` and `medusa` pick theirs, which counts as point masses.",
            f"At most {max_new_tokens} tokens of an answer; prompts held out from training: {in_words(sizes)}. A "
            f"tree of "
            f"breadth {PAPER_TREE.breadth}, depth {PAPER_TREE.depth}, at most {PAPER_TREE.nodes} nodes. {OWN_TREE}",
            _on_calibration(outcomes),
        ),
        results={
            "prompts": dict(sizes),
            "rows": [
                {
                    "draft": row.compared.name,
                    "temperature": row.temperature,
                    "accept_length": {condition: estimate.as_dict() for condition, estimate in row.accept.items()},
                    "gain": row.gain.as_dict(),
                }
                for row in rows
            ],
            "drawn_fit": {place: _as_dict(pairs) for place, pairs in outcomes.drawn.items()},
            "noise_weights": outcomes.trusts,
        },
        draw=lambda axes: _draw(axes, rows),
        faults=[f"{different} coupled answers depend on how the drafter ranked"] if different else [],
    )


def _as_dict(pairs: Pairs) -> dict[str, float] | None:
    fitted = fit(pairs)
    return None if fitted is None else asdict(fitted)


def _on_calibration(outcomes: Outcomes) -> str:
    """How far what drafters say lies from what was committed."""
    said = {"candidates with noise": calibration_error(outcomes.candidates, [logp for logp, _ in outcomes.candidates])}
    for (place, pairs), curve in zip(outcomes.drawn.items(), DRAWN, strict=True):
        said[f"the {place} of drawn siblings"] = calibration_error(pairs, [curve.logp(x) for x, _ in pairs])
    errors = ", ".join(f"{error:.3f} for {name}" for name, error in said.items())
    return (
        "Mean distance of the probability that a drafter gave to a token from the share that was committed, over ten "
        f"bins: {errors}."
    )


def _draw(axes: Any, rows: Sequence[SamplingRow]) -> None:
    """For each draft and temperature a bar of each condition."""
    width = 0.8 / len(CONDITIONS)
    for place, condition in enumerate(CONDITIONS):
        estimates = [row.accept[condition] for row in rows]
        centres = [index + (place - (len(CONDITIONS) - 1) / 2) * width for index in range(len(rows))]
        below = [max(0.0, each.value - each.low) for each in estimates]
        above = [max(0.0, each.high - each.value) for each in estimates]
        heights = [each.value for each in estimates]
        axes.bar(centres, heights, width * 0.95, label=condition, yerr=(below, above), error_kw={"linewidth": 0.7})
    names = [f"{row.compared.name}\nT={row.temperature}" for row in rows]
    axes.set_xticks(range(len(rows)), names, fontsize=7, rotation=90)
    axes.set_ylabel("accept length (committed tokens per pass)")
    axes.axhline(1, color="grey", linewidth=0.7)
    axes.legend(frameon=False, ncols=2)
    axes.spines[["top", "right"]].set_visible(False)
