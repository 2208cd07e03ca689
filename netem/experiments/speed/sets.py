"""`sets`: the speed for every category of prompt, measured on the virtual clock and predicted by `model.py`."""

import asyncio
from dataclasses import asdict, dataclass
from statistics import fmean

from client.stats import per
from common.stated_costs import STATED
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.speed.costs import VIRTUAL_CLOCK, VIRTUAL_COSTS
from netem.experiments.speed.model import Costs, coverage_of, predict
from netem.experiments.speed.runs import Run, SpeedWorkload, faults_of, run_alone
from netem.experiments.speed.systems import AUTO, EAGER, LOCKSTEP_MOA, System
from netem.experiments.speed.testbed import Testbed, open_testbed
from netem.links.profile import LinkProfile
from netem.links.profiles import find_profile
from netem.links.way import Way, both_ways
from netem.virtual.server import PACE

HEADINGS = ("link", "prompts", "system", "coverage", "tokens/s", "predicted", "measured / predicted", "accept length")

_PACKET_BYTES = 150
_PACKETS = 4000

FULL = SpeedWorkload(("5g", "4g", "satellite"), prompts=8, tokens=192)
QUICK = SpeedWorkload(("4g",), prompts=3, tokens=96)


@dataclass(frozen=True, slots=True)
class Prediction:
    """One system on one category. rounds: the lock-step run that the coverage is from. predicted: tokens per second,
    with the measured time to the first token."""

    link: str
    category: str
    system: str
    coverage: float
    rounds: Run
    run: Run
    predicted: float

    @property
    def ratio(self) -> float:
        return self.run.stats.tokens_per_second / self.predicted


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL
    testbed = await asyncio.to_thread(open_testbed, request, workload.prompts)
    found: list[Prediction] = []
    points = [(link, category) for link in workload.links for category in testbed.prompts]
    for number, (link, category) in enumerate(points):
        advance(f"{link}, {category}", number / len(points))
        found += await asyncio.to_thread(compare, testbed, find_profile(link), category, workload.tokens)
    return make_report(found, workload)


def compare(testbed: Testbed, profile: LinkProfile, category: str, tokens: int) -> list[Prediction]:
    """Measures and predicts the streaming systems; the coverage comes from lock-step on the same prompts."""
    prompts = testbed.prompts[category]
    rounds = run_alone(testbed, profile, LOCKSTEP_MOA, prompts, tokens)
    coverage = rounds_coverage(rounds)
    predicted = []
    for system in (EAGER, AUTO):
        run = run_alone(testbed, profile, system, prompts, tokens)
        speed = predict(coverage, costs_of(system, profile), system.policy.levels_together)
        rate = with_first_token(run, speed)
        predicted.append(Prediction(profile.name, category, system.name, coverage, rounds, run, rate))
    return predicted


def rounds_coverage(rounds: Run) -> float:
    """The coverage of lock-step rounds, 0 where an answer has none. The prompt's own pass is left out: it commits a
    token without a draft."""
    levels = LOCKSTEP_MOA.policy.round_levels
    assert levels is not None
    stats, prompts = rounds.stats, len(rounds.answers)
    return coverage_of(per(stats.tokens - prompts, stats.passes - prompts), levels)


def with_first_token(run: Run, speed: float) -> float:
    """Tokens per second of answers with the measured time to the first token, and `speed` tokens per second after
    it."""
    each = [timed.answer.stats for timed in run.answers]
    tokens = sum(stats.tokens for stats in each)
    return tokens / sum(stats.ttft_seconds + (stats.tokens - 1) / speed for stats in each)


def costs_of(system: System, profile: LinkProfile) -> Costs:
    up, down = (travel(way, system.policy.levels_together * STATED.draft_seconds) for way in both_ways(profile))
    return Costs(up, down, PACE.per_pass, STATED.draft_seconds, PACE.per_level if system is AUTO else None)


def travel(way: Way, interval_s: float) -> float:
    """The mean one-way time in seconds of small packets that are sent at this interval."""
    sent = [number * interval_s for number in range(_PACKETS)]
    came = [way.send(_PACKET_BYTES, moment) for moment in sent]
    return fmean(arrival - moment for moment, arrival in zip(sent, came, strict=True) if arrival is not None)


def make_report(found: list[Prediction], workload: SpeedWorkload) -> Report:
    return Report(
        title="Every kind of prompt: measured on the virtual clock, and predicted",
        headings=HEADINGS,
        rows=[_row(each) for each in found],
        remarks=(
            f"{workload.prompts} held-out prompts of each kind, at most {workload.tokens} tokens each, greedy, draft "
            f"moa.",
            VIRTUAL_CLOCK,
            "Coverage is the chance that the target's next token is in the drafted tree, from the accept length of "
            "lock-step rounds with the published tree on the same prompts, without the prompts' own passes.",
            "The model (netem/experiments/speed/model.py) draws covered tokens with that chance, independently, and "
            "moves laptop, link and server by their costs; the link's delay is what small packets take at the pace "
            "at which nodes are sent. The first token is taken as measured.",
        ),
        results={
            "stated_costs": VIRTUAL_COSTS,
            "clock": "virtual",
            "points": [
                {
                    **{key: value for key, value in asdict(each).items() if key not in ("rounds", "run")},
                    "ratio": each.ratio,
                    "measured": each.run.as_dict(),
                }
                for each in found
            ],
        },
        faults=[
            fault
            for category in dict.fromkeys(each.category for each in found)
            for fault in faults_of(_runs([each for each in found if each.category == category]))
        ],
    )


def _runs(found: list[Prediction]) -> list[Run]:
    """All of them, lock-step ones once for each link."""
    return [*{each.link: each.rounds for each in found}.values(), *(each.run for each in found)]


def _row(each: Prediction) -> list[str]:
    stats = each.run.stats
    return [
        each.link,
        each.category,
        each.system,
        f"{each.coverage:.3f}",
        f"{stats.tokens_per_second:.1f}",
        f"{each.predicted:.1f}",
        f"{each.ratio:.2f}",
        f"{stats.accept_length:.2f}",
    ]
