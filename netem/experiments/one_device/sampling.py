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
from netem.experiments.one_device.contenders import Contender, find_contenders, find_ground
from netem.experiments.one_device.intervals import Estimate
from netem.experiments.one_device.prompts import Extent, choose, in_words
from netem.experiments.one_device.scores import EXPLAINED, OWN_TREE, Answers, accepts, bootstrap_for, differing

FULL = Extent(prompts=4, tokens=96)
QUICK = Extent(prompts=1, tokens=16)

TEMPERATURES = (0.7, 1.0)
SHARED, ALONE, REJECTION, CHAINS = "shared noise", "probability alone", "speculative", "speculative chain"
MANNERS = (SHARED, ALONE, REJECTION, CHAINS)
HEADINGS = ("draft", "temperature", SHARED, ALONE, "gain", REJECTION, CHAINS)


class System(NamedTuple):
    contender: Contender
    temperature: float
    manner: str

    def __str__(self) -> str:
        return f"{self.contender.name}, T={self.temperature}, {self.manner}"


@dataclass(frozen=True)
class Row:
    contender: Contender
    temperature: float
    accept: Mapping[str, Estimate]  # by manner
    gain: Estimate
    different: int


async def measure(request: Request, advance: Advance) -> Report:
    extent = QUICK if request.quick else FULL
    ground, contenders = find_ground(request), find_contenders(request)
    prompts = choose(ground.prompts, extent.prompts, request.seed)
    with open_bench(ground, contenders) as bench:
        outcomes = Outcomes()
        systems = {
            system: _asker(bench, system, extent.tokens, request.seed, outcomes)
            for system in (
                System(contender, temperature, manner)
                for contender in contenders
                for temperature in TEMPERATURES
                for manner in MANNERS
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
    tree = CHAIN if system.manner == CHAINS else PAPER_TREE
    watch = Watch()
    ranks: dict[str, Rank] = {SHARED: watch.rank, ALONE: by_probability, REJECTION: watch.rank, CHAINS: ranking_for}
    rule = "coupled" if system.manner in (SHARED, ALONE) else "speculative"

    def ask(tokens: Sequence[int]) -> Measured:
        # The same seed for a prompt whatever the system.
        sampling = Sampling(system.temperature, seed=seed + sum(tokens))
        given = bench.answer(
            system.contender, tree, tokens, new_tokens, rule=rule, sampling=sampling, rank=ranks[system.manner]
        )
        watch.judge(tokens, given.rounds.tokens, outcomes)
        return given

    return ask


def make_rows(answers: Mapping[System, Answers], seed: int) -> list[Row]:
    bootstrap = bootstrap_for(next(iter(answers.values())), seed)
    rows = []
    for contender, temperature in dict.fromkeys((system.contender, system.temperature) for system in answers):
        given = {manner: answers[System(contender, temperature, manner)] for manner in MANNERS}
        spent = {manner: accepts(each) for manner, each in given.items()}
        rows.append(
            Row(
                contender,
                temperature,
                {manner: bootstrap.mean(each) for manner, each in spent.items()},
                bootstrap.ratio(spent[SHARED], spent[ALONE]),
                differing(given[SHARED], given[ALONE]),
            )
        )
    return rows


def make_report(rows: Sequence[Row], outcomes: Outcomes, sizes: Mapping[str, int], max_new_tokens: int) -> Report:
    different = sum(row.different for row in rows)
    return Report(
        title="Drafting where the target samples",
        headings=HEADINGS,
        rows=[
            [
                row.contender.name,
                f"{row.temperature}",
                *(str(row.accept[manner]) for manner in (SHARED, ALONE)),
                str(row.gain),
                *(str(row.accept[manner]) for manner in (REJECTION, CHAINS)),
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
                    "draft": row.contender.name,
                    "temperature": row.temperature,
                    "accept_length": {manner: estimate.as_dict() for manner, estimate in row.accept.items()},
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


def _draw(axes: Any, rows: Sequence[Row]) -> None:
    """For each draft and temperature a bar of each manner."""
    width = 0.8 / len(MANNERS)
    for place, manner in enumerate(MANNERS):
        estimates = [row.accept[manner] for row in rows]
        centres = [index + (place - (len(MANNERS) - 1) / 2) * width for index in range(len(rows))]
        below = [max(0.0, each.value - each.low) for each in estimates]
        above = [max(0.0, each.high - each.value) for each in estimates]
        heights = [each.value for each in estimates]
        axes.bar(centres, heights, width * 0.95, label=manner, yerr=(below, above), error_kw={"linewidth": 0.7})
    names = [f"{row.contender.name}\nT={row.temperature}" for row in rows]
    axes.set_xticks(range(len(rows)), names, fontsize=7, rotation=90)
    axes.set_ylabel("accept length (committed tokens per pass)")
    axes.axhline(1, color="grey", linewidth=0.7)
    axes.legend(frameon=False, ncols=2)
    axes.spines[["top", "right"]].set_visible(False)
