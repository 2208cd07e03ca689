"""One session in real time: drives the drafting loop with a stream, a drafter's thread and a clock.

Every decision is made in `drafting`; here are only the two tasks that ask for them. Knows no text and no screen.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from client.drafting import DraftingLoop
from client.errors import RefusedError
from client.provisional import ProvisionalTally, likeliest_run
from client.stats import Clock, Meter, Stats, Traffic, per
from common.drafters.drafter import Drafter
from common.protocol.errors import OutriderError
from common.protocol.messages import Commit, Failed, Finished, FromClient, FromServer, Opened, Settings
from common.protocol.transitions import ClientState
from common.protocol.views import Proposal, TreeView


class Stream(Protocol):
    """A session's stream, whatever carries it."""

    @property
    def traffic(self) -> Traffic: ...

    def send(self, message: FromClient) -> None:
        """Never waits; messages leave in order."""
        ...

    async def receive(self) -> FromServer:
        """The next frame. Raises LinkError where the stream is broken or was ended by the server."""
        ...


Watch = Callable[[Sequence[int], Sequence[int]], None]
"""Sees the tokens committed since the last call, and the provisional run that now follows them."""


@dataclass(frozen=True, slots=True)
class Answer:
    tokens: tuple[int, ...]  # committed, the end token included
    finish_reason: str  # a FinishReason, or "error"
    stats: Stats
    failure: str = ""  # why the answer broke off
    note: str = ""  # what a person should know of an answer that is whole


class Conversation:
    """`drafter` may be None. Each drafted level takes at least `pace` seconds."""

    def __init__(
        self,
        stream: Stream,
        loop: DraftingLoop,
        drafter: Drafter | None,
        draft_name: str,
        pace: float = 0.0,
        clock: Clock = time.perf_counter,
    ):
        self._stream = stream
        self._loop = loop
        self._drafter = drafter
        self._draft_name = draft_name
        self._pace = pace
        self._clock = clock
        self._executor = ThreadPoolExecutor(1, "drafter")
        self._changed = asyncio.Event()
        self._rtt = 0.0
        self._note = ""

    async def answer(self, tokens: Sequence[int], settings: Settings, watch: Watch) -> Answer:
        """The answer that follows `tokens`.

        Raises OutriderError where nothing of it came; one that breaks off later is returned with its `failure`.
        """
        session = self._loop.session
        self._note = ""
        before = self._stream.traffic
        opening = self._loop.begin_turn(tokens, settings)
        turn = _Turn(Meter(self._clock), ProvisionalTally(), watch)
        self._send(opening)
        drafting = asyncio.create_task(self._draft(turn))
        failure: OutriderError | None = None
        try:
            await self._receive(turn)
        except OutriderError as error:
            failure = error
        finally:
            if session.state is not ClientState.FINISHED:
                session.lost()
            self._changed.set()
            await drafting
        if failure is not None and not session.answer:
            raise failure
        return self._summarise(turn, settings, self._stream.traffic.since(before), failure)

    def cancel(self) -> None:
        """Stops the answer that is being made, if any."""
        self._send(self._loop.cancel())

    def close(self) -> None:
        self._executor.shutdown()

    def _send(self, messages: Sequence[FromClient]) -> None:
        for message in messages:
            self._stream.send(message)

    async def _receive(self, turn: "_Turn") -> None:
        session = self._loop.session
        while session.state is not ClientState.FINISHED:
            message = await self._stream.receive()
            tokens, replies = self._loop.received(message)
            self._send(replies)
            self._changed.set()
            match message:
                case Opened():
                    self._rtt = turn.meter.elapsed()
                case Commit() if tokens:
                    turn.meter.committed()
                    turn.show(tokens, likeliest_run(session.tree))
                case Finished():
                    turn.show((), ())
                case Failed():
                    raise RefusedError(message.message)

    async def _draft(self, turn: "_Turn") -> None:
        loop, session = self._loop, self._loop.session
        while loop.answering:
            self._changed.clear()
            step = loop.begin_step()
            if step is None or self._drafter is None:
                await self._changed.wait()
                continue
            try:
                proposals = await self._paced_level(self._drafter, step.view)
            except Exception as error:  # whatever a model raises
                self._note = f"the drafter failed ({error or type(error).__name__}); the answer went on without it"
                self._send(loop.retire())
                continue
            self._send(loop.drafted(step, proposals))
            if loop.answering:
                turn.show((), likeliest_run(session.tree))

    async def _paced_level(self, drafter: Drafter, view: TreeView) -> Sequence[Proposal]:
        due = self._clock() + self._pace
        proposals = await asyncio.get_running_loop().run_in_executor(self._executor, drafter.draft, view)
        if (early := due - self._clock()) > 0:
            await asyncio.sleep(early)
        return proposals

    def _summarise(self, turn: "_Turn", settings: Settings, traffic: Traffic, failure: OutriderError | None) -> Answer:
        session = self._loop.session
        tokens = tuple(session.answer)
        seconds = turn.meter.elapsed()
        stats = Stats(
            tokens=len(tokens),
            seconds=seconds,
            tokens_per_second=per(len(tokens), seconds),
            ttft_seconds=turn.meter.ttft,
            accept_length=per(len(tokens), session.passes),
            passes=session.passes,
            bytes_up=traffic.up,
            bytes_down=traffic.down,
            rtt_ms=self._rtt * 1000,
            provisional_tokens=turn.tally.offered,
            retracted_tokens=turn.tally.retracted,
            reconnects=0,
            draft=self._draft_name,
            rule=settings.rule,
        )
        reason = "error" if failure or session.finished is None else session.finished.reason.value
        return Answer(tokens, reason, stats, str(failure or ""), self._note)


@dataclass(frozen=True, slots=True)
class _Turn:
    """What is kept of one answer beside the session."""

    meter: Meter
    tally: ProvisionalTally
    watch: Watch

    def show(self, committed: Sequence[int], provisional: Sequence[int]) -> None:
        self.tally.update(committed, provisional)
        self.watch(committed, provisional)
