"""Answers of one target by drafted systems and plainly, on one server in one dtype, and what its passes take.

May know how a virtual run is assembled. It may not know tables of results, or which modes are compared.
"""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from client.answer import Answer
from client.answering import AnswerOptions
from client.drafting.policies import CLOUD, LOCKSTEP, STREAM, Policy
from common.models.segment import Segment
from common.protocol.errors import MisuseError
from common.protocol.scheduled_tokens import ScheduledTokens
from netem.experiments.dealt_prompts import (
    DealtPrompt,
    answer_all,
    dealt_sampling_of,
    number_categories,
    number_prompts,
)
from netem.experiments.experiment import Request
from netem.experiments.one_device.compared_drafts import find_model_paths
from netem.experiments.sizes.checkpoints import write_checkpoint
from netem.experiments.sizes.targets import QWEN_600M_TARGET, SizedTarget
from netem.experiments.speed.runs import fault_of
from netem.experiments.speed.testbed import open_testbed
from netem.links.profiles import find_profile
from netem.virtual.client import DraftSetup, LoadedDrafts, ask
from netem.virtual.clock import run_virtually
from netem.virtual.server import VirtualServer, load_virtual_server
from server.passes.batch import PassOutcome
from server.passes.target import Target

LINK = "4g"
LEVEL_SECONDS = 0.015
"""A drafted level on a slow laptop, so that a run takes its processor time for passes."""
MAX_NEW_TOKENS = 16
PLAIN_SESSIONS = 3
DEMO, RANDOM = "demo", "random"
NEAR = "near"
VOCABULARY = 8192
"""Of the random target."""
_LENGTHS = (20, 120)  # of prompts with random tokens, drawn evenly; the first quarter comes again at the end


@dataclass(frozen=True, slots=True)
class DraftedSystem:
    """`idle` is the server's policy, `sessions` are open at a time."""

    draft: DraftSetup
    idle: str
    sessions: int
    policy: Policy = STREAM


DEMO_SYSTEMS = (
    DraftedSystem(DraftSetup("moa"), "eager", 1),
    DraftedSystem(DraftSetup("moa", 3), "patient", 4),
    DraftedSystem(DraftSetup("moa", 1), "assist", 3),
    DraftedSystem(DraftSetup("moa"), "auto", 8),
    DraftedSystem(DraftSetup("moa"), "lockstep", 2, LOCKSTEP),
    DraftedSystem(DraftSetup("eagle"), "patient", 8),
    DraftedSystem(DraftSetup("eagle"), "eager", 5),
    DraftedSystem(DraftSetup("medusa"), "patient", 6),
    DraftedSystem(DraftSetup("independent"), "patient", 7),
    DraftedSystem(DraftSetup("independent"), "colocated", 4),
    DraftedSystem(DraftSetup("lookup"), "eager", 8),
    DraftedSystem(DraftSetup("lookup"), "auto", 2),
)
RANDOM_SYSTEMS = (
    DraftedSystem(DraftSetup(NEAR), "eager", 1),
    DraftedSystem(DraftSetup(NEAR), "patient", 8),
    DraftedSystem(DraftSetup(NEAR), "assist", 4),
    DraftedSystem(DraftSetup("lookup"), "eager", 6),
)


@dataclass(frozen=True)
class TestedServer:
    """`systems` take turns at `prompts`."""

    __test__ = False  # pytest takes classes named Test... for tests

    server: VirtualServer
    drafts: LoadedDrafts
    prompts: Sequence[DealtPrompt]
    systems: Sequence[DraftedSystem]


@dataclass(frozen=True, slots=True)
class ComparedAnswers:
    """What one system's answers were, beside plain decoding's to the same prompts.

    recomputed: greedy answers of plain decoding, computed once more as one prompt each; recomputed_different: those in
    which another token is the likeliest. smallest_margin: the least difference between the two best logits of a
    token of these; ties: tokens where there is none. plain_pass_ms, pass_ms: processor time of the passes alone.
    """

    target: str
    dtype: str
    mode: str
    drafter: str
    policy: str
    sessions: int
    answers: int
    different: int
    recomputed: int
    recomputed_different: int
    smallest_margin: float
    ties: int
    tokens: int
    passes: int
    plain_pass_ms: float
    pass_ms: float


class TimedTarget(Target):
    """Counts its passes and their processor time."""

    def __init__(self, target: Target):
        super().__init__(target.model)
        self.passes = 0
        self.seconds = 0.0

    def verify(self, scheduled: Sequence[ScheduledTokens]) -> list[PassOutcome]:
        begun = time.process_time()
        outcomes = super().verify(scheduled)
        self.seconds += time.process_time() - begun
        self.passes += 1
        return outcomes

    @property
    def pass_ms(self) -> float:
        return 1000 * self.seconds / max(1, self.passes)


@contextmanager
def demo_server(request: Request, dtype: str, batch_invariant: bool, prompts: int) -> Iterator[TestedServer]:
    """The shipped target with its draft models, and about so many held-out prompts. Raises MisuseError where there
    are fewer than systems."""
    testbed = open_testbed(request, -(-prompts // 6), dtype, batch_invariant)
    numbered = number_categories(testbed.prompts)
    if len(numbered) < len(DEMO_SYSTEMS):
        file = find_model_paths(request).prompts
        raise MisuseError(f"{len(DEMO_SYSTEMS)} systems share {len(numbered)} held-out prompts; add more to {file}")
    yield TestedServer(testbed.server, testbed.loaded_drafts, numbered, DEMO_SYSTEMS)


@contextmanager
def random_server(request: Request, dtype: str, batch_invariant: bool, prompts: int) -> Iterator[TestedServer]:
    """Two random layers in the shape of Qwen3-0.6B, with a copy of themselves as the draft model, which computes in
    float32; and prompts of random tokens."""
    sizes = replace(QWEN_600M_TARGET.dimensions, layers=2, vocabulary=VOCABULARY)
    sized: SizedTarget = replace(QWEN_600M_TARGET, dimensions=sizes)
    with TemporaryDirectory(prefix="outrider-lab-") as folder:
        target, draft = (
            write_checkpoint(Path(folder) / name, sized, torch.bfloat16, request.seed) for name in ("target", NEAR)
        )
        server = load_virtual_server(target, [draft], dtype, batch_invariant)
        draws = random.Random(request.seed)
        tokens = [[draws.randrange(VOCABULARY // 2) for _ in range(draws.randrange(*_LENGTHS))] for _ in range(prompts)]
        repeating = [each + each[: len(each) // 4] for each in tokens]
        yield TestedServer(server, LoadedDrafts(server), number_prompts(repeating), RANDOM_SYSTEMS)


def compare_answers(
    tested: TestedServer, index: int, condition: tuple[str, str, str], seed: int
) -> tuple[ComparedAnswers, list[str]]:
    """The system at `index`, over its own prompts, and the faults of its answers. `condition`: target, dtype, mode."""
    system = tested.systems[index]
    prompts = tested.prompts[index :: len(tested.systems)]
    plain = _Asking(tested, None, prompts, seed)
    drafted = _Asking(tested, system, prompts, seed)
    plain_answers, drafted_answers = plain.answers(), drafted.answers()
    greedy = [
        _recompute(tested.server.target, prompt, answer)
        for prompt, answer in zip(prompts, plain_answers, strict=True)
        if plain.is_greedy(prompt)
    ]
    margins = torch.cat([margins for _, margins in greedy])
    found = ComparedAnswers(
        *condition,
        drafter=system.draft.label,
        policy=system.idle,
        sessions=system.sessions,
        answers=len(prompts),
        different=sum(
            ours.tokens != theirs.tokens for ours, theirs in zip(drafted_answers, plain_answers, strict=True)
        ),
        recomputed=len(greedy),
        recomputed_different=sum(not same for same, _ in greedy),
        smallest_margin=float(margins.min()),
        ties=int((margins == 0).sum()),
        tokens=sum(answer.stats.tokens for answer in drafted_answers),
        passes=sum(answer.stats.passes for answer in drafted_answers),
        plain_pass_ms=plain.target.pass_ms,
        pass_ms=drafted.target.pass_ms,
    )
    return found, [fault for answer in (*plain_answers, *drafted_answers) if (fault := fault_of(answer))]


def _recompute(target: Target, prompt: DealtPrompt, answer: Answer) -> tuple[bool, torch.Tensor]:
    """Whether prompt and answer, computed as one prompt, have the answer's tokens as the likeliest; and by how much
    each is likelier than the second."""
    tokens = [*prompt.tokens, *answer.tokens]
    asked, count = len(prompt.tokens), len(tokens) - 1
    wanted = range(asked - 1, count)
    whole = Segment(tokens[:count], range(count), range(-1, count - 1), wanted=wanted)
    logits = target.model.forward([whole]).logits.float()
    best = logits.topk(2).values
    return logits.argmax(-1).tolist() == list(answer.tokens), best[:, 0] - best[:, 1]


class _Asking:
    """Answers prompts by a drafted system, or plainly where it is None."""

    def __init__(self, tested: TestedServer, system: DraftedSystem | None, prompts: Sequence[DealtPrompt], seed: int):
        self.target = TimedTarget(tested.server.target)
        self._server = replace(tested.server, target=self.target)
        self._tested = tested
        self._system = system
        self._prompts = prompts
        self._seed = seed

    def is_greedy(self, prompt: DealtPrompt) -> bool:
        """Every other prompt of a system."""
        return prompt.number // len(self._tested.systems) % 2 == 0

    def answers(self) -> list[Answer]:
        """In the order of the prompts."""
        return run_virtually(self._answer_all())

    async def _answer_all(self) -> list[Answer]:
        sessions = PLAIN_SESSIONS if self._system is None else self._system.sessions
        async with self._server.serve() as engine:

            async def answer(prompt: DealtPrompt) -> Answer:
                drafter = None if self._system is None else self._tested.drafts.drafter(self._system.draft)
                link, options = find_profile(LINK), self._options(prompt)
                return await ask(engine, self._server, link, prompt.tokens, options, drafter)

            answers = await answer_all(self._prompts, sessions, answer)
        return [answers[prompt.number] for prompt in self._prompts]

    def _options(self, prompt: DealtPrompt) -> AnswerOptions:
        policy, idle = (CLOUD, "eager") if self._system is None else (self._system.policy, self._system.idle)
        options = AnswerOptions(policy, MAX_NEW_TOKENS, idle=idle, pace=LEVEL_SECONDS)
        if self.is_greedy(prompt):
            return options
        sampling = dealt_sampling_of(prompt.number, len(self._tested.systems), self._seed)
        return replace(options, rule="coupled", sampling=sampling)
