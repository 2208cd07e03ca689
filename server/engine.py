"""The engine: it runs a pass whenever a session is due, in a worker thread, and hands out the results. The same thread
encodes draft state before each pass, or alone while no session is due. A second worker drafts for sessions whose idle
policy lets the server draft.

An asyncio shell around `Sessions`, which is used on the event loop's thread only. Frames that arrive during a pass grow
the trees at once; the next pass verifies them. It may not know gRPC or how the target computes.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Protocol

from common.clock import Clock
from common.pacing import PacedThread, Worker, WorkerFactory
from common.protocol.errors import PeerError
from common.protocol.messages import Extend, FailureCode, FromClient, Open
from common.protocol.scheduled_tokens import ScheduledTokens
from server.fault_isolation import describe_error
from server.options import Pace
from server.passes.batch import PassOutcome
from server.passes.server_drafting import DraftedLevel, ServerDrafterFactory, ServerDraftTask
from server.passes.state_export import ExportRequest, StateExport
from server.sessions.counters import Counters
from server.sessions.entry import MessageSink, SessionEntry
from server.sessions.sessions import Sessions

_log = logging.getLogger(__name__)

_DRAIN_POLL = 0.02


class Verifier(Protocol):
    """The target as the engine sees it."""

    def verify(self, scheduled: Sequence[ScheduledTokens]) -> Sequence[PassOutcome]:
        """One pass, and what it comes to for each session."""
        ...


class ExportMaker(Protocol):
    """Draft state as the engine sees it."""

    def make(self, requests: Sequence[ExportRequest]) -> Sequence[bytes | None]:
        """Encoded state for each request, or None where it cannot be computed."""
        ...

    @property
    def cached_bytes(self) -> int:
        """Of state that is kept for other sessions."""
        ...


class Engine:
    def __init__(
        self,
        sessions: Sessions,
        target: Verifier,
        pace: Pace,
        maker: ExportMaker | None = None,
        drafter_factory: ServerDrafterFactory | None = None,
        clock: Clock = time.monotonic,
        make_worker: WorkerFactory = PacedThread,
    ):
        """`maker` may be None where the sessions' terms offer no draft state, `drafter_factory` where the server does
        not draft. `clock` gives seconds."""
        self.sessions = sessions
        self._target = target
        self._pace = pace
        self._maker = maker
        self._drafter_factory = drafter_factory
        self._clock = clock
        self._make_worker = make_worker
        self._pass_may_be_due = asyncio.Event()
        self._draft_may_be_due = asyncio.Event()

    @property
    def counters(self) -> Counters:
        return self.sessions.counters

    @property
    def now(self) -> float:
        """On the clock of its sessions, in seconds."""
        return self._clock()

    def receive(self, sink: MessageSink, message: FromClient) -> None:
        """A frame of a client. A fault in it ends this session and no other."""
        try:
            self.sessions.receive(sink, message, self._clock())
        except PeerError as error:
            self.sessions.fail(sink, error)
        self._wake()

    def receive_prepared(self, sink: MessageSink, message: FromClient) -> None:
        """As `receive`, within `preparing`, which hears of a fault: raises PeerError, with which the stream has to
        `fail`."""
        self.sessions.receive(sink, message, self._clock())
        self._wake()

    def is_to_prepare(self, sink: MessageSink, message: Open | Extend) -> bool:
        """Whether the costly work that a request with a constraint needs before it is received is of use now. Raises
        PeerError where the request cannot be served now, whatever its constraint is."""
        return self.sessions.is_to_prepare(sink, message, self._clock())

    def preparing(self, sink: MessageSink, message: Open | Extend) -> AbstractContextManager[bool]:
        """Encloses that work and receiving the request, for one request of a client at a time; yields whether the work
        is of use. Raises PeerError before it, as `is_to_prepare` does."""
        return self.sessions.preparing(sink, message, self._clock())

    def half_close(self, sink: MessageSink) -> None:
        """The client has closed its side of the stream, or its connection broke."""
        self.sessions.half_close(sink, self._clock())
        self._wake()

    def fail(self, sink: MessageSink, error: PeerError) -> None:
        self.sessions.fail(sink, error)
        self._wake()

    def leave(self, sink: MessageSink) -> None:
        self.sessions.leave(sink, self._clock())
        self._wake()

    async def run(self) -> None:
        """Runs passes until it is cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._run_passes())
                if self._drafter_factory is not None:
                    tasks.create_task(self._run_server_drafting(self._drafter_factory))
        except BaseExceptionGroup as group:
            if len(group.exceptions) > 1:
                raise
            # The operator reads the error itself, not a group that holds it.
            raise group.exceptions[0] from None

    async def drain(self, seconds: float) -> None:
        """Lets running answers finish for at most `seconds`, then ends the rest."""
        self.sessions.drain()
        deadline = self._clock() + seconds
        while len(self.sessions) and self._clock() < deadline:
            await asyncio.sleep(_DRAIN_POLL)
        self.sessions.fail_all(PeerError("the server is draining; resume elsewhere", FailureCode.DRAINING))

    async def _run_passes(self) -> None:
        loop = asyncio.get_running_loop()
        async with _closing(self._make_worker("target")) as worker:
            while True:
                self._pass_may_be_due.clear()
                batch = self.sessions.plan(self._clock())
                exports = self.sessions.claim_state()
                if batch is None and not exports:
                    await self._wait()
                    worker.rested()
                    continue
                make = partial(self._make_state, exports, loop)
                if batch is None:
                    await worker.run(0.0, make)
                    continue
                verify = partial(self._target.verify, batch.scheduled)
                # State first: after this pass it would be one pass late.
                work = batch.work
                stated_s = self._pace.cost(work.tokens, work.positions, work.pairs)
                outcomes, timed = await worker.run(stated_s, verify, before=make)
                self.counters.overrun_passes += timed.overran
                self.counters.busy_seconds += timed.seconds
                self.sessions.complete(batch, outcomes, self._clock())
                self._draft_may_be_due.set()
                # Its frames leave before the next pass is planned.
                await asyncio.sleep(0)

    async def _run_server_drafting(self, drafter_factory: ServerDrafterFactory) -> None:
        """Drafts one level at a time, beside the passes."""
        async with _closing(self._make_worker("server drafter")) as worker:
            while True:
                self._draft_may_be_due.clear()
                task = self.sessions.claim_draft_task()
                if task is None:
                    await self._draft_may_be_due.wait()
                    worker.rested()
                    continue
                begun = self._clock()
                level, timed = await worker.run(self._pace.per_level, partial(_draft, task, drafter_factory))
                self.counters.overrun_levels += timed.overran
                self.sessions.add_drafted_level(task, level, self._clock() - begun)
                self._pass_may_be_due.set()

    def _wake(self) -> None:
        self._pass_may_be_due.set()
        self._draft_may_be_due.set()

    def _make_state(self, exports: Sequence[StateExport[SessionEntry]], loop: asyncio.AbstractEventLoop) -> None:
        """Hands state to the event loop's thread as soon as it is made, before the pass has a result."""
        if not exports or self._maker is None:
            return
        begun = self._clock()
        payloads: Sequence[bytes | None] = [None] * len(exports)
        try:
            payloads = self._maker.make([export.request for export in exports])
        # Passes go on without draft state, whatever fails here.
        except Exception as error:
            _log.error("draft state cannot be made: %s", describe_error(error))
        loop.call_soon_threadsafe(self._send_state, exports, payloads, self._clock() - begun)

    def _send_state(
        self, exports: Sequence[StateExport[SessionEntry]], payloads: Sequence[bytes | None], seconds: float
    ) -> None:
        self.counters.state_seconds += seconds
        self.counters.state_cached_bytes = 0 if self._maker is None else self._maker.cached_bytes
        self.sessions.send_state(exports, payloads, self._clock())

    async def _wait(self) -> None:
        delay = self.sessions.next_due() - self._clock()
        # Not `wait_for`, which in Python 3.11 may swallow a cancellation that comes together with the event.
        with suppress(TimeoutError):
            async with asyncio.timeout(None if delay == math.inf else max(0.0, delay)):
                await self._pass_may_be_due.wait()


@asynccontextmanager
async def _closing(worker: Worker) -> AsyncIterator[Worker]:
    """Waits for the running computation in another thread: the event loop has streams to end and signals to hear."""
    try:
        yield worker
    finally:
        await asyncio.to_thread(worker.close)


def _draft(task: ServerDraftTask[SessionEntry], drafter_factory: ServerDrafterFactory) -> DraftedLevel | None:
    try:
        return task.draft(drafter_factory)
    # Whatever a model raises, the session goes on without this drafter.
    except Exception as error:
        _log.error("a level cannot be drafted here: %s", describe_error(error))
        return None
