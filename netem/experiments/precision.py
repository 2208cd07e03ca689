"""`precision`: whether answers in bfloat16 and float16 are those of plain decoding through the same server.

On the virtual clock, with the demo's models. Each prompt is answered plainly, beside others, and then by one of the
drafted systems, with another number of sessions at once; prompts are dealt to systems in turn. Every other one is
sampled with shared noise, the rest are greedy. The same once more with `--fast`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from client.answer import Answer
from client.answering import AnswerOptions
from client.drafting.policies import CLOUD, LOCKSTEP, STREAM, Policy
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.references import sampling_of
from netem.experiments.speed.runs import fault_of
from netem.experiments.speed.testbed import Testbed, open_testbed
from netem.links.profiles import find_profile
from netem.virtual.client import DraftSetup, ask
from netem.virtual.clock import run_virtually

DTYPES = ("bfloat16", "float16")
MODES = {"exact": True, "fast": False}
PROMPTS = 50
QUICK_PROMPTS = 10
"""Of each category."""
PLAIN_SESSIONS = 3
MAX_NEW_TOKENS = 24
LINK = "4g"
HEADINGS = (
    "dtype",
    "passes",
    "drafter",
    "policy",
    "sessions",
    "answers",
    "differ from plain decoding",
    "accept length",
)


@dataclass(frozen=True, slots=True)
class DraftedSystem:
    """`idle` is the server's policy, `sessions` are open at a time."""

    draft: DraftSetup
    idle: str
    sessions: int
    policy: Policy = STREAM


SYSTEMS = (
    DraftedSystem(DraftSetup("moa"), "eager", 1),
    DraftedSystem(DraftSetup("moa", 3), "patient", 4),
    DraftedSystem(DraftSetup("moa", 1), "assist", 3),
    DraftedSystem(DraftSetup("moa"), "auto", 8),
    DraftedSystem(DraftSetup("moa"), "lockstep", 2, LOCKSTEP),
    DraftedSystem(DraftSetup("eagle"), "patient", 8),
    DraftedSystem(DraftSetup("eagle"), "eager", 5),
    DraftedSystem(DraftSetup("medusa"), "patient", 6),
    DraftedSystem(DraftSetup("independent"), "patient", 7),
    DraftedSystem(DraftSetup("lookup"), "eager", 8),
)


@dataclass(frozen=True, slots=True)
class AskedPrompt:
    number: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ComparedAnswers:
    dtype: str
    mode: str
    drafter: str
    policy: str
    sessions: int
    answers: int
    different: int
    tokens: int
    passes: int


async def measure(request: Request, advance: Advance) -> Report:
    compared: list[ComparedAnswers] = []
    faults: list[str] = []
    conditions = [(dtype, mode) for mode in MODES for dtype in DTYPES]
    count = 0
    for place, (dtype, mode) in enumerate(conditions):
        advance(f"{dtype}, {mode}", place / len(conditions))
        testbed = open_testbed(request, QUICK_PROMPTS if request.quick else PROMPTS, dtype, MODES[mode])
        tokens = [tuple(each) for of_category in testbed.prompts.values() for each in of_category]
        prompts = [AskedPrompt(number, each) for number, each in enumerate(tokens)]
        count = len(prompts)
        # In a thread: the virtual clock has an event loop of its own.
        compared += await asyncio.to_thread(_compare, testbed, prompts, (dtype, mode), request.seed, faults)
    return make_report(compared, count, faults)


def _compare(
    testbed: Testbed, prompts: Sequence[AskedPrompt], condition: tuple[str, str], seed: int, faults: list[str]
) -> list[ComparedAnswers]:
    found = []
    for place, system in enumerate(SYSTEMS):
        dealt = prompts[place :: len(SYSTEMS)]
        plain = _Asking(testbed, None, dealt, seed).answers()
        drafted = _Asking(testbed, system, dealt, seed).answers()
        faults += [fault for answer in (*plain, *drafted) if (fault := fault_of(answer))]
        found.append(
            ComparedAnswers(
                *condition,
                _name(system.draft),
                system.idle,
                system.sessions,
                len(dealt),
                sum(ours.tokens != theirs.tokens for ours, theirs in zip(drafted, plain, strict=True)),
                sum(answer.stats.tokens for answer in drafted),
                sum(answer.stats.passes for answer in drafted),
            )
        )
    return found


@dataclass(frozen=True)
class _Asking:
    """Answers prompts by a drafted system, or plainly where it is None."""

    testbed: Testbed
    system: DraftedSystem | None
    prompts: Sequence[AskedPrompt]
    seed: int

    def answers(self) -> list[Answer]:
        """In the order of the prompts."""
        return run_virtually(self._answer_all())

    async def _answer_all(self) -> list[Answer]:
        waiting = iter(self.prompts)
        answers: dict[int, Answer] = {}
        async with self.testbed.server.serve() as engine:

            async def answer_in_turn() -> None:
                for prompt in waiting:
                    drafter = self.testbed.drafter(self.system.draft if self.system else None)
                    answers[prompt.number] = await ask(
                        engine, self.testbed.server, find_profile(LINK), prompt.tokens, self._options(prompt), drafter
                    )

            await asyncio.gather(
                *(answer_in_turn() for _ in range(self.system.sessions if self.system else PLAIN_SESSIONS))
            )
        return [answers[prompt.number] for prompt in self.prompts]

    def _options(self, prompt: AskedPrompt) -> AnswerOptions:
        policy, idle = (self.system.policy, self.system.idle) if self.system else (CLOUD, "eager")
        if prompt.number // len(SYSTEMS) % 2 == 0:
            return AnswerOptions(policy, MAX_NEW_TOKENS, idle=idle)
        return AnswerOptions(
            policy, MAX_NEW_TOKENS, "coupled", idle, sampling=sampling_of(prompt.number // 2, self.seed)
        )


def _name(draft: DraftSetup) -> str:
    return f"{draft.name}, N = {draft.layers}" if draft.name == "moa" else draft.name


def make_report(compared: Sequence[ComparedAnswers], count: int, faults: Sequence[str] = ()) -> Report:
    rows = [
        [
            each.dtype,
            each.mode,
            each.drafter,
            each.policy,
            str(each.sessions),
            str(each.answers),
            str(each.different),
            f"{each.tokens / max(1, each.passes):.2f}",
        ]
        for each in compared
    ]
    for dtype in DTYPES:
        for mode in MODES:
            of_mode = [each for each in compared if (each.dtype, each.mode) == (dtype, mode)]
            answers, different = sum(each.answers for each in of_mode), sum(each.different for each in of_mode)
            rows.append([dtype, mode, "all", "", "", str(answers), str(different), ""])
    broken = sum(each.different for each in compared if MODES[each.mode])
    return Report(
        title="Answers in low precision against plain decoding through the same server",
        headings=HEADINGS,
        rows=rows,
        remarks=(
            f"{count} held-out prompts for each dtype, dealt to the systems in turn; demo target on the virtual clock "
            f"over {LINK}, {MAX_NEW_TOKENS} tokens each; every other prompt of a system sampled with shared noise.",
            f"Plain decoding: no drafts, {PLAIN_SESSIONS} sessions at a time. Fast passes are those of `--fast`.",
        ),
        results={"compared": [asdict(each) for each in compared]},
        draw=lambda axes: draw_differences(axes, compared),
        faults=[*faults, *([f"{broken} answers of exact passes differ from plain decoding"] if broken else [])],
    )


def draw_differences(axes: Any, compared: Sequence[ComparedAnswers]) -> None:
    """A bar for each dtype and mode: the share of answers that differ."""
    for place, (dtype, mode) in enumerate((dtype, mode) for dtype in DTYPES for mode in MODES):
        of_mode = [each for each in compared if (each.dtype, each.mode) == (dtype, mode)]
        share = sum(each.different for each in of_mode) / max(1, sum(each.answers for each in of_mode))
        axes.bar(place, 100 * share)
    axes.set_xticks(range(len(DTYPES) * len(MODES)), [f"{dtype}\n{mode}" for dtype in DTYPES for mode in MODES])
    axes.set_ylabel("answers that differ, %")
