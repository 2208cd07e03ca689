"""Runs passes: waits until a session is due, lets the worker thread compute, hands out what came of it. Draft state
is made in the same thread ahead of each pass, and alone while none is due.

The asyncio shell around `Sessions`, which is only touched on the event loop's thread; frames that arrive during a
pass grow the trees at once and meet the target in the next one. It may not know gRPC or how the target computes.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, FromClient
from server.batch import Case, Outcome
from server.counters import Counters
from server.exports import Ask, Export
from server.pace import Pace, run_paced
from server.sessions import Listener, Member, Sessions

Clock = Callable[[], float]

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
        clock: Clock = time.monotonic,
    ):
        """`maker` may be None where the sessions' terms offer no draft state."""
        self.sessions = sessions
        self._target = target
        self._pace = pace
        self._maker = maker
        self._clock = clock
        self._stirred = asyncio.Event()

    @property
    def counters(self) -> Counters:
        return self.sessions.counters

    def receive(self, listener: Listener, message: FromClient) -> None:
        """A frame of a client; a fault in it ends that client's session alone."""
        try:
            self.sessions.receive(listener, message, self._clock())
        except PeerError as error:
            self.sessions.fail(listener, error)
        self._stirred.set()

    def hear_out(self, listener: Listener) -> None:
        """The client has closed its side of the stream."""
        self.sessions.hear_out(listener)
        self._stirred.set()

    def fail(self, listener: Listener, error: PeerError) -> None:
        self.sessions.fail(listener, error)
        self._stirred.set()

    def leave(self, listener: Listener) -> None:
        self.sessions.leave(listener)
        self._stirred.set()

    async def run(self) -> None:
        """Runs passes until it is cancelled."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "target") as worker:
            while True:
                self._stirred.clear()
                batch = self.sessions.plan(self._clock())
                exports = self.sessions.claim_state()
                if batch is None and not exports:
                    await self._wait()
                    continue
                make = partial(self._make_state, exports, loop)
                if batch is None:
                    await loop.run_in_executor(worker, make)
                    continue
                compute = partial(self._compute, make, batch.cases)
                outcomes, timed = await loop.run_in_executor(worker, run_paced, self._pace, batch.tokens, compute)
                self.counters.overrun_passes += timed.overran
                self.counters.busy_seconds += timed.seconds
                self.sessions.complete(batch, outcomes, self._clock())

    async def drain(self, seconds: float) -> None:
        """Lets running answers finish for at most `seconds`, then ends those that are left."""
        self.sessions.drain()
        deadline = self._clock() + seconds
        while len(self.sessions) and self._clock() < deadline:
            await asyncio.sleep(_DRAIN_POLL)
        self.sessions.fail_all(PeerError("the server is going away; resume elsewhere", FailureCode.DRAINING))

    def _compute(self, make: Callable[[], None], cases: Sequence[Case]) -> Sequence[Outcome]:
        # What belongs to the last pass's commits would be old after this one.
        make()
        return self._target.decide(cases)

    def _make_state(self, exports: Sequence[Export[Member]], loop: asyncio.AbstractEventLoop) -> None:
        """Hands state over to the event loop's thread as soon as it is made, ahead of what the pass comes to."""
        if not exports or self._maker is None:
            return
        begun = time.perf_counter()
        payloads = self._maker.make([export.ask for export in exports])
        loop.call_soon_threadsafe(self._send_state, exports, payloads, time.perf_counter() - begun)

    def _send_state(self, exports: Sequence[Export[Member]], payloads: Sequence[bytes | None], seconds: float) -> None:
        self.counters.state_seconds += seconds
        self.sessions.send_state(exports, payloads, self._clock())

    async def _wait(self) -> None:
        delay = self.sessions.next_due() - self._clock()
        try:
            await asyncio.wait_for(self._stirred.wait(), None if delay == math.inf else max(0.0, delay))
        except TimeoutError:
            return
