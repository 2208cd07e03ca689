"""Runs passes: waits until a session is due, lets the worker thread compute, hands out what came of it. Draft state
is made in the same thread ahead of each pass, and alone while none is due. Beside it a second worker drafts for the
sessions that the server assists.

The asyncio shell around `Sessions`, which is only touched on the event loop's thread; frames that arrive during a
pass grow the trees at once and meet the target in the next one. It may not know gRPC or how the target computes.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Protocol

from common.pacing import Hire, PacedThread
from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, FromClient
from server.fault_isolation import named
from server.passes.batch import Case, Outcome
from server.passes.server_drafting import Aides, Assistance, Level
from server.passes.state_export import Ask, Export
from server.sessions.counters import Counters
from server.sessions.entry import Listener, Member
from server.sessions.sessions import Sessions
from server.stated_pace import Pace

Clock = Callable[[], float]
_log = logging.getLogger(__name__)

_DRAIN_POLL = 0.02


class Decider(Protocol):
    """The target as the engine sees it."""

    def decide(self, cases: Sequence[Case]) -> Sequence[Outcome]:
        """One pass, and what comes of each case."""
        ...


class Maker(Protocol):
    """Draft state as the engine sees it."""

    def make(self, asks: Sequence[Ask]) -> Sequence[bytes | None]:
        """Encoded state for each ask, or None where it cannot be computed."""
        ...


class Engine:
    def __init__(
        self,
        sessions: Sessions,
        target: Decider,
        pace: Pace,
        maker: Maker | None = None,
        aides: Aides | None = None,
        clock: Clock = time.monotonic,
        hire: Hire = PacedThread,
    ):
        """`maker` may be None where the sessions' terms offer no draft state, `aides` where the server does not
        draft."""
        self.sessions = sessions
        self._target = target
        self._pace = pace
        self._maker = maker
        self._aides = aides
        self._clock = clock
        self._hire = hire
        self._stirred = asyncio.Event()
        self._assistant_stirred = asyncio.Event()

    @property
    def counters(self) -> Counters:
        return self.sessions.counters

    def receive(self, listener: Listener, message: FromClient) -> None:
        """A frame of a client; a fault in it ends that client's session alone."""
        try:
            self.sessions.receive(listener, message, self._clock())
        except PeerError as error:
            self.sessions.fail(listener, error)
        self._stir()

    def hear_out(self, listener: Listener) -> None:
        """Nothing more comes from this client, for whatever reason."""
        self.sessions.hear_out(listener, self._clock())
        self._stir()

    def fail(self, listener: Listener, error: PeerError) -> None:
        self.sessions.fail(listener, error)
        self._stir()

    def leave(self, listener: Listener) -> None:
        self.sessions.leave(listener, self._clock())
        self._stir()

    async def run(self) -> None:
        """Runs passes until it is cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._run_passes())
                if self._aides is not None:
                    tasks.create_task(self._assist(self._aides))
        except BaseExceptionGroup as group:
            if len(group.exceptions) > 1:
                raise
            # What the operator reads is what happened, not that it happened in a group.
            raise group.exceptions[0] from None

    async def drain(self, seconds: float) -> None:
        """Lets running answers finish for at most `seconds`, then ends those that are left."""
        self.sessions.drain()
        deadline = self._clock() + seconds
        while len(self.sessions) and self._clock() < deadline:
            await asyncio.sleep(_DRAIN_POLL)
        self.sessions.fail_all(PeerError("the server is going away; resume elsewhere", FailureCode.DRAINING))

    async def _run_passes(self) -> None:
        loop = asyncio.get_running_loop()
        with closing(self._hire("target")) as worker:
            while True:
                self._stirred.clear()
                batch = self.sessions.plan(self._clock())
                exports = self.sessions.claim_state()
                if batch is None and not exports:
                    await self._wait()
                    continue
                make = partial(self._make_state, exports, loop)
                if batch is None:
                    await worker.run(0.0, make)
                    continue
                compute = partial(self._compute, make, batch.cases)
                outcomes, timed = await worker.run(self._pace.cost(batch.tokens), compute)
                self.counters.overrun_passes += timed.overran
                self.counters.busy_seconds += timed.seconds
                self.sessions.complete(batch, outcomes, self._clock())
                self._assistant_stirred.set()

    async def _assist(self, aides: Aides) -> None:
        """Drafts a level at a time, beside the passes."""
        with closing(self._hire("assistant")) as worker:
            while True:
                self._assistant_stirred.clear()
                asked = self.sessions.claim_assistance()
                if asked is None:
                    await self._assistant_stirred.wait()
                    continue
                begun = self._clock()
                level, timed = await worker.run(self._pace.per_level, partial(_draft, asked, aides))
                self.counters.overrun_levels += timed.overran
                self.sessions.assist(asked, level, self._clock() - begun)
                self._stirred.set()

    def _stir(self) -> None:
        self._stirred.set()
        self._assistant_stirred.set()

    def _compute(self, make: Callable[[], None], cases: Sequence[Case]) -> Sequence[Outcome]:
        # What belongs to the last pass's commits would be old after this one.
        make()
        return self._target.decide(cases)

    def _make_state(self, exports: Sequence[Export[Member]], loop: asyncio.AbstractEventLoop) -> None:
        """Hands state over to the event loop's thread as soon as it is made, ahead of what the pass comes to."""
        if not exports or self._maker is None:
            return
        begun = self._clock()
        payloads: Sequence[bytes | None] = [None] * len(exports)
        try:
            payloads = self._maker.make([export.ask for export in exports])
        # Whatever comes of state, passes go on without it.
        except Exception as error:
            _log.error("draft state cannot be made: %s", named(error))
        loop.call_soon_threadsafe(self._send_state, exports, payloads, self._clock() - begun)

    def _send_state(self, exports: Sequence[Export[Member]], payloads: Sequence[bytes | None], seconds: float) -> None:
        self.counters.state_seconds += seconds
        self.sessions.send_state(exports, payloads, self._clock())

    async def _wait(self) -> None:
        delay = self.sessions.next_due() - self._clock()
        # Not `wait_for`, which in Python 3.11 may swallow a cancellation that comes together with the event.
        with suppress(TimeoutError):
            async with asyncio.timeout(None if delay == math.inf else max(0.0, delay)):
                await self._stirred.wait()


def _draft(asked: Assistance[Member], aides: Aides) -> Level | None:
    try:
        return asked.draft(aides)
    # Whatever a model raises, it concerns this session's help, not the session.
    except Exception as error:
        _log.error("a level cannot be drafted here: %s", named(error))
        return None
