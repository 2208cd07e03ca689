"""Asks what a plan says and cuts it as the plan says, several answers at once, each over a link of its own.

Knows conversations, links and servers; judges one answer at a time, and reports nothing.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from client.answering import AnswerOptions
from client.assembly import Client
from client.drafting.policies import STREAM
from client.link.offline import Offline
from client.link.stream import Access
from common.drafters.drafter import Drafter
from common.protocol.errors import OutriderError
from netem.experiments.exactness import verdict
from netem.experiments.torture.plan import LONGEST, Cut, Generation, Kind, Question
from netem.experiments.torture.servers import Servers
from netem.experiments.torture.trial import Trial
from netem.links.breakable import BreakableProxy

BROKEN_OFF = "broken off"
_PATIENT = Offline(limit=LONGEST, patience=120.0)


@dataclass(frozen=True, slots=True)
class Outcome:
    generation: Generation
    rule: str
    draft: str
    verdict: str
    why: str  # it broke off
    retracted: int  # tokens that were shown as final
    reconnects: int
    provisional: int  # tokens that were offered before they were final
    hits: Mapping[Kind, int]
    waits: Sequence[tuple[Kind, float]]


@dataclass(slots=True)
class Torment:
    questions: Sequence[Question]
    servers: Servers
    made: Counter[Kind] = field(default_factory=Counter)  # cuts, in mid-answer or not
    outcomes: list[Outcome] = field(default_factory=list)
    _trials: set[Trial] = field(default_factory=set)

    async def work(self, client: Client, proxy: BreakableProxy, waiting: Iterator[Generation]) -> None:
        """One answer after the other over one link."""
        drafter = client.load_drafter()
        here = replace(client, access=Access(proxy.address))
        for generation in waiting:
            self.outcomes.append(await self._torment(generation, here, proxy, drafter))

    async def _torment(
        self, generation: Generation, client: Client, proxy: BreakableProxy, drafter: Drafter
    ) -> Outcome:
        question, trial = self.questions[generation.question], Trial()
        options = AnswerOptions(STREAM, LONGEST, question.rule, sampling=question.sampling)
        outcome = Outcome(generation, question.rule, client.manifest.draft, BROKEN_OFF, "", 0, 0, 0, trial.hits, ())
        self._trials.add(trial)
        cutting = asyncio.create_task(self._cut(generation, trial, proxy))
        try:
            async with (
                client.access.connect() as connection,
                replace(client, connection=connection).converse(STREAM, drafter, 0.0, _PATIENT) as conversation,
            ):
                answer = await conversation.answer(
                    question.reference.prompt,
                    options.settings(),
                    lambda committed, _: trial.show(committed, time.perf_counter()),
                    trial.link_is,
                )
        except OutriderError as error:
            return replace(outcome, why=str(error))
        finally:
            self._trials.discard(trial)
            cutting.cancel()
            with suppress(asyncio.CancelledError):
                await cutting
            proxy.resume()
            proxy.reset()
        is_whole = answer.finish_reason in ("stop", "length")
        return replace(
            outcome,
            verdict=verdict(question.reference, answer.tokens) if is_whole else BROKEN_OFF,
            why=answer.failure or answer.note or answer.finish_reason,
            retracted=trial.retracted(answer.tokens),
            reconnects=answer.stats.reconnects,
            provisional=answer.stats.provisional_tokens,
            waits=trial.waits,
        )

    async def _cut(self, generation: Generation, trial: Trial, proxy: BreakableProxy) -> None:
        for cut in generation.cuts:
            await trial.until(cut.tokens)
            await asyncio.sleep(cut.delay)
            if cut.kind is Kind.KILL:
                # The spare is waited for, whether or not this answer still is.
                await asyncio.shield(self._kill(cut))
                continue
            self.made[cut.kind] += 1
            trial.cut(cut.kind, server_is_down=self.servers.is_down)
            if cut.kind is Kind.RESET:
                proxy.reset()
            elif cut.kind is Kind.MOVE:
                proxy.move()
            else:
                proxy.go_silent()
                await asyncio.sleep(cut.seconds)
                proxy.resume()
            trial.link_returned(time.perf_counter())

    async def _kill(self, cut: Cut) -> None:
        if self.servers.is_down:
            return
        self.made[Kind.KILL] += 1
        hit = tuple(self._trials)
        for trial in hit:
            trial.cut(Kind.KILL)
        await self.servers.kill(cut.seconds)
        for trial in hit:
            trial.link_returned(time.perf_counter())
