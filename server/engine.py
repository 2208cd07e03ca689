"""Runs passes: waits until a session is due, lets the worker thread compute, hands out what came of it.

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

from common.models.segment import Segment
from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, FromClient
from server.counters import Counters
from server.pace import Pace, run_paced
from server.sessions import Listener, Sessions

Clock = Callable[[], float]

_DRAIN_POLL = 0.02


class Chooser(Protocol):
    """The target as the engine sees it."""

    def choose(self, segments: Sequence[Segment]) -> Sequence[Sequence[int] | None]:
        """One pass: for each segment the target's token at every wanted row, or None where there is none."""


class Engine:
    def __init__(self, sessions: Sessions, target: Chooser, pace: Pace, clock: Clock = time.monotonic):
        self.sessions = sessions
        self._target = target
        self._pace = pace
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
                if batch is None:
                    await self._wait()
                    continue
                choose = partial(self._target.choose, batch.segments)
                outcomes, timed = await loop.run_in_executor(worker, run_paced, self._pace, batch.tokens, choose)
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

    async def _wait(self) -> None:
        delay = self.sessions.next_due() - self._clock()
        try:
            await asyncio.wait_for(self._stirred.wait(), None if delay == math.inf else max(0.0, delay))
        except TimeoutError:
            return
