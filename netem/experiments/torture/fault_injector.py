"""Makes answers over real links and injects the faults of their plans, several answers at once, each over its own link.

Knows conversations, links and servers. It records the outcome of each answer, and reports nothing.
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
from client.link.offline import OfflineOptions
from client.link.stream import Access
from common.drafters.drafter import Drafter
from common.protocol.errors import OutriderError
from netem.experiments.references import ReferenceQuestion
from netem.experiments.torture.answer_record import FaultRecord
from netem.experiments.torture.outcome import MAX_NEW_TOKENS, AnswerOutcome, judged
from netem.experiments.torture.plan import FaultKind, FaultPlan, InjectedFault
from netem.experiments.torture.server_with_spare import ServerWithSpare
from netem.links.breakable import BreakableProxy

_PATIENT = OfflineOptions(limit_tokens=MAX_NEW_TOKENS, wait_s=120.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultedAnswer(AnswerOutcome):
    """hits: faults in mid-answer by kind. waits: by kind, seconds from the end of a fault to the next final token."""

    plan: FaultPlan
    hits: Mapping[FaultKind, int]
    waits: Sequence[tuple[FaultKind, float]] = ()


@dataclass(slots=True)
class FaultInjector:
    """injected: the faults so far, in mid-answer or not. outcomes: of the answers that have ended."""

    questions: Sequence[ReferenceQuestion]
    servers: ServerWithSpare
    injected: Counter[FaultKind] = field(default_factory=Counter)
    outcomes: list[FaultedAnswer] = field(default_factory=list)
    _running: set[FaultRecord] = field(default_factory=set)

    async def run_worker(self, client: Client, proxy: BreakableProxy, plans: Iterator[FaultPlan]) -> None:
        """Makes one answer after the other over one link. Workers share `plans`."""
        drafter = client.load_drafter()
        through_proxy = replace(client, access=Access(proxy.address))
        for plan in plans:
            self.outcomes.append(await self._answer(plan, through_proxy, proxy, drafter))

    async def _answer(self, plan: FaultPlan, client: Client, proxy: BreakableProxy, drafter: Drafter) -> FaultedAnswer:
        question, record = self.questions[plan.question], FaultRecord()
        options = AnswerOptions(STREAM, MAX_NEW_TOKENS, question.rule, sampling=question.sampling)
        outcome = FaultedAnswer(plan.index, question.rule, client.manifest.draft, plan=plan, hits=record.hits)
        self._running.add(record)
        injecting = asyncio.create_task(self._inject_all(plan, record, proxy))
        try:
            async with (
                client.access.connect() as connection,
                replace(client, connection=connection).converse(STREAM, drafter, 0.0, _PATIENT) as conversation,
            ):
                answer = await conversation.answer(
                    question.reference.prompt,
                    options.settings(),
                    lambda committed, _: record.committed(committed, time.perf_counter()),
                    record.link_changed,
                )
        except OutriderError as error:
            return replace(outcome, why=str(error))
        finally:
            self._running.discard(record)
            injecting.cancel()
            with suppress(asyncio.CancelledError):
                await injecting
            proxy.resume()
            proxy.reset()
        return replace(judged(outcome, question.reference, answer, record), waits=record.waits)

    async def _inject_all(self, plan: FaultPlan, record: FaultRecord, proxy: BreakableProxy) -> None:
        for fault in plan.faults:
            await record.until_final(fault.tokens)
            await asyncio.sleep(fault.delay_s)
            if fault.kind is FaultKind.KILL:
                # Shielded: the spare server takes over even where this answer ends meanwhile.
                await asyncio.shield(self._kill_server(fault))
                continue
            self.injected[fault.kind] += 1
            record.fault_began(fault.kind, server_is_down=self.servers.is_down)
            await inject_link_fault(proxy, fault.kind, fault.duration_s)
            record.fault_ended(time.perf_counter())

    async def _kill_server(self, fault: InjectedFault) -> None:
        if self.servers.is_down:
            return
        self.injected[FaultKind.KILL] += 1
        hit = tuple(self._running)
        for record in hit:
            record.fault_began(FaultKind.KILL)
        await self.servers.kill(fault.duration_s)
        for record in hit:
            record.fault_ended(time.perf_counter())


async def inject_link_fault(proxy: BreakableProxy, kind: FaultKind, duration_s: float) -> None:
    """Returns when the link carries again. kind: any but KILL. duration_s: of a blackhole; the others take no time."""
    if kind is FaultKind.RESET:
        proxy.reset()
    elif kind is FaultKind.MOVE:
        proxy.move()
    else:
        proxy.go_silent()
        await asyncio.sleep(duration_s)
        proxy.resume()
