"""Chats beside long prompts on one server whose target is a table, on the virtual clock.

May know how a virtual run is assembled. It may not know tables of results, or which loads are compared.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from client.answering import AnswerOptions
from client.drafting.policies import CLOUD, STREAM, Policy
from common.protocol.sampling import Sampling
from common.protocol.terms import Terms
from common.stated_costs import STATED
from netem.experiments.law.tables import END, VOCABULARY, TableDrafter, Tables, TableTarget, make_tables
from netem.experiments.speed.runs import Run, TimedAnswer, quantile
from netem.experiments.table_runs import ask, serving
from netem.links.profile import Direction, LinkProfile
from netem.virtual.clock import run_virtually
from server.engine import Engine
from server.options import Pace
from server.sessions.admission import ServingLimits

PASS_TOKENS = 512
LINK = LinkProfile("steady", "10 ms each way", Direction(1e9, 10.0), Direction(1e9, 10.0))
"""Without jitter or loss, so that gaps are the server's own."""

_CHAT_PROMPT = range(30, 200)  # tokens, drawn evenly
_CAPACITY = 65_536
_LONG_PROMPTS_BEGIN_S = 1.0  # after the chats


@dataclass(frozen=True, slots=True)
class MixedLoad:
    """`chats` clients ask one short prompt after the other, for `seconds` and while there are long prompts; each of
    `readers` clients sends `each` prompts of `long_tokens` tokens, one after the other."""

    chats: int
    readers: int
    seconds: float = 20.0
    each: int = 3
    long_tokens: int = 8000
    answer_tokens: int = 96


@dataclass(frozen=True, slots=True)
class MixedRun:
    """The answers to short prompts and to long ones. Where there are long ones, gaps and first tokens of chats count
    that one of them could hold up: between its request and its first token."""

    chats: Run
    long: Run

    def chat_gap(self, share: float) -> float:
        """The quantile of the seconds between two commits of a chat."""
        return quantile(
            [
                later - earlier
                for timed in self.chats.answers
                for earlier, later in pairwise(timed.commits)
                if self._counts(earlier, later)
            ],
            share,
        )

    def chat_first_token(self, share: float) -> float:
        """The quantile of the seconds from a chat's request to its first token."""
        return quantile(
            [
                timed.commits[0] - timed.asked_s
                for timed in self.chats.answers
                if self._counts(timed.asked_s, timed.commits[0])
            ],
            share,
        )

    @property
    def long_first_token(self) -> float:
        """The median over all long prompts, in seconds."""
        return median(timed.commits[0] - timed.asked_s for timed in self.long.answers)

    def _counts(self, begin_s: float, end_s: float) -> bool:
        long = self.long.answers
        return not long or any(timed.asked_s < end_s and begin_s < timed.commits[0] for timed in long)


def run_mixed(pace: Pace, load: MixedLoad, policy: Policy, seed: int) -> MixedRun:
    """Chats draft where `policy` does. Deterministic."""
    return run_virtually(_run(make_tables(seed), pace, load, policy, seed))


async def _run(tables: Tables, pace: Pace, load: MixedLoad, policy: Policy, seed: int) -> MixedRun:
    clock = asyncio.get_running_loop().time
    terms = Terms("tables", VOCABULARY, load.long_tokens + 512, frozenset({END}), lambda tokens: "")
    limits = ServingLimits(max_sessions=load.chats + load.readers, pass_tokens=PASS_TOKENS)
    over = asyncio.Event()

    async def ask_timed(
        engine: Engine, client: int, question: int, lengths: Sequence[int], options: AnswerOptions
    ) -> TimedAnswer:
        # Of this question alone, whenever it is asked, so that chats are the same with other clients beside them.
        draws = random.Random(f"{seed} {client} {question}")
        prompt = [draws.randrange(1, VOCABULARY) for _ in range(draws.choice(lengths))]
        drafter = TableDrafter(tables, draws.getrandbits(32)) if options.policy.drafts else None
        commits: list[float] = []

        def watch(committed: Sequence[int], provisional: Sequence[int]) -> None:
            if committed:
                commits.append(clock())

        asked_s = clock()
        answer = await ask(engine, LINK, f"{client:016x}{question:016x}", prompt, options, drafter, watch)
        return TimedAnswer(answer, asked_s, tuple(commits))

    async def chat(engine: Engine, client: int) -> list[TimedAnswer]:
        answers: list[TimedAnswer] = []
        while not over.is_set():
            sampling = Sampling(temperature=1.0, seed=len(answers))
            options = AnswerOptions(policy, load.answer_tokens, "speculative", "eager", STATED.draft_seconds, sampling)
            answers.append(await ask_timed(engine, client, len(answers), _CHAT_PROMPT, options))
        return answers

    async def read(engine: Engine, client: int) -> list[TimedAnswer]:
        await asyncio.sleep(_LONG_PROMPTS_BEGIN_S)
        options = AnswerOptions(CLOUD, 2, idle="eager")
        return [
            await ask_timed(engine, client, question, (load.long_tokens,), options) for question in range(load.each)
        ]

    async with serving(TableTarget(tables, _CAPACITY), terms, limits, pace, _CAPACITY) as engine:
        chats = [asyncio.create_task(chat(engine, client)) for client in range(load.chats)]
        long = await asyncio.gather(*(read(engine, load.chats + reader) for reader in range(load.readers)))
        await asyncio.sleep(load.seconds - clock())
        over.set()
        answered = await asyncio.gather(*chats)
        return MixedRun(*(Run([each for own in all_ for each in own], engine.counters) for all_ in (answered, long)))


CHATTING: dict[str, Policy] = {"cloud decoding": CLOUD, "eager": STREAM}
"""How chats are answered, by the names of the systems under test."""
