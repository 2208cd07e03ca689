"""One session in real time: drives the drafting loop with a stream, a paced drafter and a clock.

Every decision is made in `drafting`; here are only the two tasks that ask for them. Knows no text and no screen.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from client.controller import Controller, FixedTree, Steering
from client.drafting import DraftingLoop
from client.errors import RefusedError
from client.pace import Levels, PacedDrafter
from client.provisional import ProvisionalTally, likeliest_run
from client.stats import Clock, Meter, Stats, Traffic, per
from common.drafters.best_first import Expansion
from common.drafters.drafter import Drafter
from common.pacing import Hire, PacedThread
from common.protocol.errors import OutriderError
from common.protocol.messages import Commit, Failed, Finished, FromClient, FromServer, Grow, Opened, Settings
from common.protocol.transitions import ClientState


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
    levels: int = 0  # drafted
    overrun_levels: int = 0  # of these, that took longer than the stated pace
    failure: str = ""  # why the answer broke off
    note: str = ""  # what a person should know of an answer that is whole


class Conversation:
    """`drafter` may be None. Each drafted level takes at least `pace` seconds. `tree` bounds the drafter's tree; a
    controller does where it is None."""

    def __init__(
        self,
        stream: Stream,
        loop: DraftingLoop,
        drafter: Drafter | None,
        draft_name: str,
        pace: float = 0.0,
        tree: Expansion | None = None,
        clock: Clock = time.perf_counter,
        hire: Hire = PacedThread,
    ):
        self._stream = stream
        self._loop = loop
        self._drafter = None if drafter is None else PacedDrafter(drafter, pace, hire)
        self._steering: Steering = Controller() if tree is None else FixedTree(tree)
        self._draft_name = draft_name
        self._clock = clock
        self._changed = asyncio.Event()
        self._rtt = 0.0
        self._note = ""

    async def answer(self, tokens: Sequence[int], settings: Settings, watch: Watch) -> Answer:
        """The answer that follows `tokens`.

        Raises OutriderError where nothing of it came; one that breaks off later is returned with its `failure`.
        What `watch` raises is raised.
        """
        session = self._loop.session
        self._note = ""
        self._steering.begin_turn()
        opening = self._loop.begin_turn(tokens, settings)
        turn = _Turn(Meter(self._clock), ProvisionalTally(), watch, self._stream.traffic, self._levels)
        self._send(opening)
        failure: OutriderError | None = None
        try:
            await _first_of(self._receive(turn), self._draft(turn))
        except OutriderError as error:
            failure = error
        finally:
            if session.state is not ClientState.FINISHED:
                session.lost()
        if failure is not None and not session.answer:
            raise failure
        return self._summarise(turn, settings, failure)

    def cancel(self) -> None:
        """Stops the answer that is being made, if any."""
        self._send(self._loop.cancel())

    def close(self) -> None:
        """Waits for a level that is still being drafted."""
        if self._drafter is not None:
            self._drafter.close()

    @property
    def _levels(self) -> Levels:
        return Levels() if self._drafter is None else self._drafter.levels

    def _send(self, messages: Sequence[FromClient]) -> None:
        for message in messages:
            if isinstance(message, Grow) and message.nodes:
                self._steering.sent(message.nodes[-1].id, self._clock())
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
                    self._steering.committed(len(tokens), message.seen, self._clock())
                    turn.meter.committed()
                    turn.show(tokens, likeliest_run(session.tree, session.room))
                case Finished():
                    turn.meter.finished()
                    turn.show((), ())
                case Failed():
                    raise RefusedError(message.message)

    async def _draft(self, turn: "_Turn") -> NoReturn:
        loop, session = self._loop, self._loop.session
        while True:
            self._changed.clear()
            step = loop.begin_step()
            if step is None or self._drafter is None:
                await self._changed.wait()
                continue
            is_first = self._levels == turn.levels_before
            began = self._clock()
            try:
                proposals = await self._drafter.draft(step.view, step.states, self._steering.expansion)
                grows = loop.drafted(step, proposals)
            except Exception as error:  # whatever a model raises, or is wrong with what it proposes
                self._note = f"the drafter failed ({error or type(error).__name__}); the answer went on without it"
                self._send(loop.retire())
                continue
            if not is_first:  # which also reads the prompt
                self._steering.drafted(step.new_nodes, self._clock() - began)
            self._send(grows)
            if loop.answering:
                turn.show((), likeliest_run(session.tree, session.room))

    def _summarise(self, turn: "_Turn", settings: Settings, failure: OutriderError | None) -> Answer:
        session = self._loop.session
        traffic = self._stream.traffic.since(turn.traffic_before)
        levels = self._levels.since(turn.levels_before)
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
            state_bytes=traffic.state,
        )
        reason = "error" if failure or session.finished is None else session.finished.reason.value
        return Answer(tokens, reason, stats, levels.drafted, levels.overrun, str(failure or ""), self._note)


async def _first_of(*both: Coroutine[None, None, None]) -> None:
    """Runs them side by side until the first ends or fails, which ends the others."""
    tasks = [asyncio.create_task(one) for one in both]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


@dataclass(frozen=True, slots=True)
class _Turn:
    """What is kept of one answer beside the session."""

    meter: Meter
    tally: ProvisionalTally
    watch: Watch
    traffic_before: Traffic
    levels_before: Levels

    def show(self, committed: Sequence[int], provisional: Sequence[int]) -> None:
        self.tally.update(committed, provisional)
        self.watch(committed, provisional)
