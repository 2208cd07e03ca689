"""`streaming`: the speed of the streaming tree against lock-step rounds and against cloud decoding, on several links.

The code and the draft model are the same: only the client's policy and the idle policy that it requests differ. A short
sweep on each link chooses the levels of a round that are best for lock-step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from client.answer import Answer
from client.answering import AnswerOptions
from client.demo.comparison import Answers, ComparedSystem, Comparison, compare, is_identical, rotations
from client.demo.family import DemoModels, choose_prompts, find_family
from client.demo.systems_under_test import SystemUnderTest, systems_under_test
from client.drafting.policies import CLOUD, LOCKSTEP, STREAM
from client.stats import combined
from common.stated_costs import OVERRUN_LIMIT, STATED
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.quiet import no_bar
from netem.links.profile import LinkProfile
from netem.links.profiles import find_profile

ROUND_LEVELS = (4, 6, 8, 12, 16)
HEADINGS = (
    "link",
    "system",
    "tokens/s",
    "against cloud",
    "first token",
    "accept length",
    "passes/token",
    "B up/token",
    "late passes",
    "late levels",
)

_CLOUD = "cloud decoding"
_LOCKSTEP = "lock-step"
_SWEEP = "lock-step, sweep"


@dataclass(frozen=True)
class StreamingWorkload:
    """`prompts` with answers of at most `tokens` on each of `links`, and a smaller sweep before."""

    links: Sequence[str]
    prompts: int
    tokens: int
    sweep_prompts: int
    sweep_tokens: int


FULL = StreamingWorkload(("5g", "4g", "satellite"), prompts=12, tokens=192, sweep_prompts=3, sweep_tokens=96)
QUICK = StreamingWorkload(("4g", "satellite"), prompts=2, tokens=48, sweep_prompts=1, sweep_tokens=24)


@dataclass(frozen=True)
class LinkResult:
    """The measurements on one link. sweep: lock-step's tokens per second by the levels of a round."""

    profile: LinkProfile
    answers: Answers
    comparison: Comparison
    sweep: Mapping[int, float]

    @property
    def rtt_ms(self) -> float:
        return median(compared.stats.rtt_ms for compared in self.comparison.systems.values())


def systems(tokens: int) -> dict[str, AnswerOptions]:
    """The systems by name; cloud decoding, to which the others are compared, is first."""
    return {
        _CLOUD: AnswerOptions(CLOUD, tokens, pace=STATED.draft_seconds),
        _LOCKSTEP: AnswerOptions(LOCKSTEP, tokens, pace=STATED.draft_seconds),
        "streaming, patient": AnswerOptions(STREAM, tokens, idle="patient", pace=STATED.draft_seconds),
        "streaming, eager": AnswerOptions(STREAM, tokens, idle="eager", pace=STATED.draft_seconds),
    }


async def measure(request: Request, advance: Advance) -> Report:
    """Every system answers every prompt in turn, on each link."""
    workload = QUICK if request.quick else FULL
    family = find_family(request.models)
    prompts = choose_prompts(family.prompts, workload.prompts, request.seed)
    measured = [
        await _on_link(family, find_profile(link), prompts, workload, _part(advance, workload, index))
        for index, link in enumerate(workload.links)
    ]
    return make_report(measured, workload.tokens)


def _part(advance: Advance, workload: StreamingWorkload, index: int) -> Advance:
    """Progress on one of the links as a part of the whole."""
    links = workload.links
    return lambda doing, share: advance(f"{links[index]}, {doing}", (index + share) / len(links))


async def _on_link(
    family: DemoModels, profile: LinkProfile, prompts: Sequence[str], workload: StreamingWorkload, advance: Advance
) -> LinkResult:
    compared = systems(workload.tokens)
    # The sweep is a system of its own, so that its overruns do not count for lock-step.
    sweeping = {_SWEEP: replace(compared[_LOCKSTEP], max_new_tokens=workload.sweep_tokens)}
    async with systems_under_test(
        family, profile.name, STATED, compared | sweeping, no_bar, lambda doing, _: advance(doing, 0.0)
    ) as opened:
        sweep = await _sweep(opened.pop(_SWEEP), prompts[: workload.sweep_prompts], advance)
        opened[_LOCKSTEP] = _with_levels(opened[_LOCKSTEP], best_levels(sweep))
        answers = await _answer_all(opened, prompts, advance)
    counters = {name: system.server.summary() for name, system in opened.items()}
    return LinkResult(profile, answers, compare(answers, counters), sweep)


async def _sweep(system: SystemUnderTest, prompts: Sequence[str], advance: Advance) -> dict[int, float]:
    speeds = {}
    for levels in ROUND_LEVELS:
        advance(f"lock-step with {levels} levels", 0.1)
        given = [await _with_levels(system, levels).ask(prompt) for prompt in prompts]
        speeds[levels] = combined([answer.stats for answer in given]).tokens_per_second
    return speeds


def best_levels(sweep: Mapping[int, float]) -> int:
    return max(sweep, key=lambda levels: sweep[levels])


def _with_levels(system: SystemUnderTest, levels: int) -> SystemUnderTest:
    return replace(system, options=replace(system.options, policy=replace(system.options.policy, round_levels=levels)))


async def _answer_all(opened: Mapping[str, SystemUnderTest], prompts: Sequence[str], advance: Advance) -> Answers:
    answers: dict[str, list[Answer]] = {name: [] for name in opened}
    for number, (prompt, order) in enumerate(zip(prompts, rotations(tuple(opened), len(prompts)), strict=True)):
        for name in order:
            advance(name, 0.3 + 0.7 * number / len(prompts))
            answers[name].append(await opened[name].ask(prompt))
    return answers


def make_report(measured: Sequence[LinkResult], max_new_tokens: int) -> Report:
    links = {result.profile.name: result for result in measured}
    identical = is_identical([run for result in measured for run in result.answers.values()])
    faults = [f"on {name}, {overrun}" for name, result in links.items() for overrun in result.comparison.overruns]
    if not identical:
        faults.insert(0, "the answers differ between systems or links, which must never happen")
    count = len(measured[0].answers[_CLOUD])
    return Report(
        title="Streaming tree, lock-step rounds and cloud decoding",
        headings=HEADINGS,
        rows=[
            _row(name, f"{system} ({best_levels(result.sweep)})" if system == _LOCKSTEP else system, compared)
            for name, result in links.items()
            for system, compared in result.comparison.systems.items()
        ],
        remarks=(
            f"{count} held-out prompts of the demo family, at most {max_new_tokens} tokens each, greedy; systems "
            "took turns prompt by prompt, each on a server of its own, which shares no prefixes. Answers identical "
            f"across systems and links: {'yes' if identical else 'NO'}.",
            f"Real time over the proxy: TCP is terminated, so loss is not emulated. Stated costs: {STATED.in_words}.",
            "tokens/s are sums over sums and the first token is a median; 'against cloud' and the ratio beside the "
            "first token divide these.",
            f"In brackets, the levels of lock-step's rounds: on each link the fastest of "
            f"{', '.join(map(str, ROUND_LEVELS))} in a short sweep before the table.",
            f"'late' took longer than their stated cost; a run is invalid where that is more than {OVERRUN_LIMIT:.0%} "
            "of any system's passes.",
            "The third baseline, speculation on the server with the same draft beside the target, is in `network`.",
        ),
        results={
            "stated_costs": asdict(STATED),
            "identical": identical,
            "links": {name: _result(result) for name, result in links.items()},
        },
        faults=faults,
    )


def _result(result: LinkResult) -> dict[str, Any]:
    return {
        "profile": asdict(result.profile),
        "measured_rtt_ms": result.rtt_ms,
        "lockstep_tokens_per_second_by_levels": dict(result.sweep),
        "lockstep_levels": best_levels(result.sweep),
        "systems": result.comparison.as_dict()["systems"],
    }


def _row(link: str, system: str, compared: ComparedSystem) -> list[str]:
    stats = compared.stats
    return [
        link,
        system,
        f"{stats.tokens_per_second:.1f}",
        f"{compared.speed_up:.2f}x",
        f"{1000 * stats.ttft_seconds:.0f} ms ({compared.ttft_ratio:.2f}x)",
        f"{stats.accept_length:.2f}",
        f"{stats.passes / stats.tokens:.2f}",
        f"{stats.bytes_up / stats.tokens:.0f}",
        f"{compared.overrun_passes:.1%}",
        f"{compared.overrun_levels:.1%}",
    ]
