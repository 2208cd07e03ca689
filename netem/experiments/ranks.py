"""`ranks`: whether a target that is divided among ranks by tensor parallelism gives the answers and the draft state of
one process.

On the virtual clock, in float64, where sums in another order alter no answer. Every drafter answers its share of the
prompts through both, greedily and sampled with shared noise in turn.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass

import torch

from client.answer import Answer
from client.answering import AnswerOptions
from client.drafting.policies import STREAM
from common.models.segment import Segment
from common.protocol.sampling import LIKELIEST
from netem.experiments.dealt_prompts import DealtPrompt, answer_all, dealt_sampling_of, number_categories
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.prompts import CATEGORIES
from netem.experiments.speed.runs import fault_of
from netem.experiments.speed.testbed import Testbed, open_testbed
from netem.links.profiles import find_profile
from netem.virtual.client import DraftSetup, ask
from netem.virtual.clock import run_virtually
from netem.virtual.server import VirtualServer
from server.models.draft_models import load_exporters
from server.models.target_loader import load_target
from server.passes.target import Target
from server.rank_info import RankInfo
from server.ranks.lead import Lead

RANKS = 2
PROMPTS, QUICK_PROMPTS = 204, 12
MAX_NEW_TOKENS = 16
SESSIONS = 8
LINK = "4g"
RULES = ("greedy", "coupled")
SYSTEMS = (
    (DraftSetup("moa"), "patient"),
    (DraftSetup("moa", 3), "assist"),
    (DraftSetup("eagle"), "patient"),
    (DraftSetup("medusa"), "patient"),
    (DraftSetup("independent"), "assist"),
    (DraftSetup("lookup"), "eager"),
)
"""Drafters, each with the server's idle policy."""
STATE_TOKENS = 256
ROUNDING = 1e-7
"""Of draft state, in units of its largest number: computed in float64, then rounded to float32."""
HEADINGS = ("drafter", "policy", "rule", "answers", "identical", "accept length")


def rule_of(prompt: int) -> str:
    """Of a prompt's number."""
    return RULES[prompt // len(SYSTEMS) % len(RULES)]


@dataclass(frozen=True, slots=True)
class DividedAnswers:
    """Those of one drafter by one rule, beside those of one process."""

    drafter: str
    policy: str
    rule: str
    answers: int
    identical: int
    tokens: int
    passes: int


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one way to run the target."""

    answers: Sequence[Answer]
    states: Mapping[str, torch.Tensor]
    weights_bytes: int
    cache_bytes: int


async def measure(request: Request, advance: Advance) -> Report:
    count = QUICK_PROMPTS if request.quick else PROMPTS
    advance("one process", 0.0)
    # In a thread: the virtual clock has an event loop of its own.
    one = await asyncio.to_thread(_measure, request, count, load_target, advance, 0.0)
    with closing(Lead(RankInfo(ranks=RANKS, local=RANKS))) as lead:
        divided = await asyncio.to_thread(_measure, request, count, lead.load_target, advance, 0.4)
    return make_report(one, divided)


def _measure(request: Request, count: int, load: Callable[..., Target], advance: Advance, done: float) -> Measured:
    testbed = open_testbed(request, count // len(CATEGORIES), "float64", load=load)
    prompts = number_categories(testbed.prompts)
    answers: dict[int, Answer] = {}
    for index, (draft, idle) in enumerate(SYSTEMS):
        advance(f"{draft.name}, {idle}", done + 0.4 * index / len(SYSTEMS))
        answers |= run_virtually(_answer_all(testbed, draft, idle, prompts[index :: len(SYSTEMS)], request.seed))
    target = testbed.server.target
    return Measured(
        [answers[prompt.number] for prompt in prompts],
        _states(testbed.server, [token for prompt in prompts for token in prompt.tokens][:STATE_TOKENS]),
        target.weights_bytes,
        target.cache_bytes,
    )


async def _answer_all(
    testbed: Testbed, draft: DraftSetup, idle: str, prompts: Sequence[DealtPrompt], seed: int
) -> dict[int, Answer]:
    async with testbed.server.serve() as engine:

        async def answer(prompt: DealtPrompt) -> Answer:
            rule = rule_of(prompt.number)
            sampling = dealt_sampling_of(prompt.number, len(SYSTEMS), seed) if rule == "coupled" else LIKELIEST
            options = AnswerOptions(STREAM, MAX_NEW_TOKENS, rule, idle, sampling=sampling)
            link, drafter = find_profile(LINK), testbed.drafter(draft)
            return await ask(engine, testbed.server, link, prompt.tokens, options, drafter)

        return await answer_all(prompts, SESSIONS, answer)


def _states(server: VirtualServer, tokens: Sequence[int]) -> dict[str, torch.Tensor]:
    """All draft state of a text, by draft model, number of target layers, and kind."""
    model = server.target.model
    model.forward([Segment(tokens, range(len(tokens)), range(-1, len(tokens) - 1))])
    exporters = load_exporters(server.offer.draft_models, model)
    slots = torch.arange(len(tokens))
    return {
        f"{draft}, N = {layers}, {exporter.kind}": exporter.export(model.pool, slots)
        for (draft, layers), of_draft in exporters.items()
        for exporter in of_draft
    }


def _difference(state: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest, in units of the largest number."""
    return float((state - expected).abs().max() / expected.abs().max())


def make_report(one: Measured, divided: Measured) -> Report:
    compared = [_compare(index, rule, one.answers, divided.answers) for index in range(len(SYSTEMS)) for rule in RULES]
    differences = {name: _difference(divided.states[name], state) for name, state in one.states.items()}
    largest = float(torch.tensor([*differences.values()]).max())  # NaN where one of them is, as `max` has it by chance
    different = sum(each.answers - each.identical for each in compared)
    return Report(
        title=f"A target divided among {RANKS} ranks, against one process",
        headings=HEADINGS,
        rows=[
            [
                each.drafter,
                each.policy,
                each.rule,
                str(each.answers),
                str(each.identical),
                f"{each.tokens / max(1, each.passes):.2f}",
            ]
            for each in compared
        ],
        remarks=(
            f"{len(one.answers)} held-out prompts, dealt to the systems in turn; demo target in float64 on a CPU, "
            f"ranks over gloo; virtual clock over {LINK}, {SESSIONS} sessions at a time, {MAX_NEW_TOKENS} tokens each. "
            "Identical: to the same prompt's answer by one process.",
            f"Draft state of {STATE_TOKENS} tokens, {len(differences)} kinds and depths, in float32 as exporters give "
            f"it: the largest difference is {largest:.2g} of the largest number.",
            f"A rank holds {divided.weights_bytes / one.weights_bytes:.2f} of the weights and "
            f"{divided.cache_bytes / one.cache_bytes:.2f} of K/V and hidden states, which are whole in every rank.",
        ),
        results={
            "compared": [asdict(each) for each in compared],
            "state_differences": differences,
            "weights_bytes": [one.weights_bytes, divided.weights_bytes],
            "cache_bytes": [one.cache_bytes, divided.cache_bytes],
        },
        faults=[
            *(fault for answer in (*one.answers, *divided.answers) if (fault := fault_of(answer))),
            *([f"{different} answers differ from those of one process"] if different else []),
            *([f"draft state differs by {largest:.2g} of its largest number"] if not largest <= ROUNDING else []),
        ],
    )


def _compare(index: int, rule: str, one: Sequence[Answer], divided: Sequence[Answer]) -> DividedAnswers:
    draft, idle = SYSTEMS[index]
    numbers = [n for n in range(index, len(one), len(SYSTEMS)) if rule_of(n) == rule]
    return DividedAnswers(
        draft.label,
        idle,
        rule,
        len(numbers),
        sum(one[n].tokens == divided[n].tokens for n in numbers),
        sum(divided[n].stats.tokens for n in numbers),
        sum(divided[n].stats.passes for n in numbers),
    )
