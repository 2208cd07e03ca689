"""One session in real time: drives the drafting loop with a lifeline, a paced drafter and a clock.

Every decision is made in `drafting` and `link_state`; here are only the tasks that ask for them. Knows no text and no
screen.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from client.drafting.controller import Controller, FixedTree, Steering
from client.drafting.loop import DraftingLoop
from client.drafting.pace import Levels, PacedDrafter
from client.drafting.provisional import ProvisionalTally
from client.errors import RefusedError
from client.first_of import first_of
from client.link.link_state import LinkState
from client.link.offline import Offline, Waited
from client.link.reconnecting_stream import Dial, Lifeline, Stream, Told, unheard
from client.stats import Clock, Meter, Stats, Traffic, per
from common.drafters.best_first import Expansion
from common.drafters.drafter import Drafter
from common.pacing import PacedThread, WorkerFactory
from common.protocol.errors import MisuseError, OutriderError
from common.protocol.messages import (
    Commit,
    Failed,
    FailureCode,
    Finished,
    FinishReason,
    FromClient,
    Grow,
    Open,
    Opened,
    Settings,
    State,
)
from common.protocol.transitions import ClientState
from common.rpc.errors import LinkError

OFFLINE = "offline"
"""The finish reason of an answer whose server did not come back."""

_PASSING = (FailureCode.OVERLOADED, FailureCode.QUOTA, FailureCode.DRAINING)
"""Failures of a server, not of a session: it, or another, may well go on with it later."""

Watch = Callable[[Sequence[int], Sequence[int]], None]
"""Sees the tokens committed since the last call, and the provisional run that now follows them."""


@dataclass(frozen=True, slots=True)
class Answer:
    tokens: tuple[int, ...]  # committed, the end token included
    finish_reason: str  # a FinishReason, "offline", "spent" or "repetition" (see `monologue`), or "error"
    stats: Stats
    provisional: tuple[int, ...] = ()  # written alone behind them, and never judged
    levels: int = 0  # drafted
    overrun_levels: int = 0  # of these, that took longer than the stated pace
    failure: str = ""  # why the answer broke off
    note: str = ""  # what a person should know of an answer that is whole
    kept: int = 0  # of the tokens, those that the draft wrote and nobody judged, as was wished
    private: bool = False  # written here alone, because the server must not see what it follows


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """What is left of a conversation whose link was ended for good: its drafter, and the draft state that it has not
    seen."""

    drafter: PacedDrafter
    draft_name: str
    states: tuple[State, ...]


class Conversation:
    """`drafter` may be None. Each drafted level takes at least `pace` seconds. `tree` bounds the drafter's tree; a
    controller does where it is None. `stream` is None where the server could not be reached; `dial` makes a new one
    for one that broke, and without it the answer breaks off."""

    def __init__(
        self,
        stream: Stream | None,
        loop: DraftingLoop,
        drafter: Drafter | None,
        draft_name: str,
        pace: float = 0.0,
        tree: Expansion | None = None,
        clock: Clock = time.perf_counter,
        make_worker: WorkerFactory = PacedThread,
        dial: Dial | None = None,
        offline: Offline = Offline(),  # noqa: B008
    ):
        self._lifeline = Lifeline(stream, dial, self._link_changed, clock)
        self._loop = loop
        self._drafter = None if drafter is None else PacedDrafter(drafter, pace, make_worker)
        self._steering: Steering = Controller() if tree is None else FixedTree(tree)
        self._draft_name = draft_name
        self._clock = clock
        self.offline = offline  # may be changed between two answers
        self._told: Told = unheard
        self._changed = asyncio.Event()
        self._opened_at = 0.0
        self._rtt = 0.0
        self._note = ""
        self._was_served = False
        self._begins_alone = stream is None
        self._kept = 0
        self._abandoned = False

    async def answer(
        self, tokens: Sequence[int], settings: Settings, watch: Watch, told: Told = unheard, offered: Sequence[int] = ()
    ) -> Answer:
        """The answer that follows `tokens`; `told` hears how the link is meanwhile. `offered` was written for it before
        and is to be judged now.

        Raises OutriderError where nothing of it came; one that breaks off later is returned with its `failure`.
        What `watch` raises is raised.
        """
        session = self._loop.session
        self._note, self._abandoned, self._told, self._kept = "", False, told, 0
        self._steering.begin_turn()
        opening = [*self._loop.begin_turn(tokens, settings), *self._loop.offer(offered)]
        self._follow_link()
        self._begins_alone = not self._lifeline.is_good
        if self._begins_alone:
            told(self._lifeline.state)
        turn = _Turn(
            Meter(self._clock),
            ProvisionalTally(),
            watch,
            self._lifeline.traffic,
            self._levels,
            self._lifeline.reconnects,
        )
        self._send(opening)
        self._lifeline.expect()
        failure: OutriderError | None = None
        try:
            await first_of(self._receive(turn), self._draft(turn), self._lifeline.keep())
        except OutriderError as error:
            failure = error
        finally:
            self._lifeline.rest()
            if session.state is not ClientState.FINISHED:
                session.lost()
                self._lifeline.drop()
            self._told = unheard
        answer = self._summarise(turn, settings, failure)
        is_refused = isinstance(failure, RefusedError) and not self._begins_alone
        if failure is not None and not answer.tokens and (is_refused or not answer.provisional):
            raise failure
        return answer

    def cancel(self) -> None:
        """Stops the answer that is being made, if any; one that is written alone at once."""
        self._abandoned = True
        if self._lifeline.is_good:
            self._send(self._loop.cancel())
        self._changed.set()

    def hurry(self) -> None:
        """Tries a lost server at once."""
        self._lifeline.hurry()

    def hold(self) -> None:
        """From the next answer on nothing is judged and nobody is waited for, until `release`."""
        self._lifeline.hold()

    def release(self) -> None:
        """The next answer tries the server at once."""
        self._lifeline.release()

    def keep(self, count: int) -> tuple[int, ...]:
        """Takes the first `count` provisional tokens as they are, and returns those that could be taken: while the link
        is lost all, else none. `watch` does not hear of them."""
        kept = self._loop.keep(count)
        self._kept += len(kept)
        self._changed.set()
        return kept

    @property
    def tokens(self) -> Sequence[int]:
        """What both ends hold: the latest prompt and its answer."""
        session = self._loop.session
        return () if session.state is ClientState.NEW else session.tree.tokens

    @property
    def is_sound(self) -> bool:
        """Whether it can answer again as well as it did at first."""
        return self._loop.session.state is not ClientState.FAILED and not self._note

    @property
    def drafts(self) -> bool:
        return self._drafter is not None

    @property
    def wants_state(self) -> bool:
        """Whether the server is asked for draft state."""
        return self._loop.session.wanted_state is not None

    @property
    def traffic(self) -> Traffic:
        return self._lifeline.traffic

    def withdraw(self) -> Withdrawn:
        """Ends the link for good, between two answers: nothing more is said or heard. Raises MisuseError where nothing
        drafts."""
        if self._drafter is None:
            raise MisuseError("without a drafter there is no going on without a link")
        self._lifeline.close()
        self._lifeline = Lifeline(None)
        return Withdrawn(self._drafter, self._draft_name, self._loop.undrafted_states)

    def close(self) -> None:
        """Ends the stream, and waits for a level that is still being drafted."""
        self._lifeline.close()
        if self._drafter is not None:
            self._drafter.close()

    @property
    def _levels(self) -> Levels:
        return Levels() if self._drafter is None else self._drafter.levels

    def _send(self, messages: Sequence[FromClient]) -> None:
        for message in messages:
            if isinstance(message, Grow) and message.nodes:
                self._steering.sent(message.nodes[-1].id, self._clock())
            if isinstance(message, Open):
                self._opened_at = self._clock()
            self._lifeline.send(message)

    def _link_changed(self, state: LinkState) -> None:
        self._follow_link()
        if self._abandoned and self._lifeline.is_good:
            self._send(self._loop.cancel())
        self._told(state)

    def _follow_link(self) -> None:
        if self._lifeline.is_good:
            self._loop.write_together()
        else:
            self._loop.write_alone(self.offline.limit)
        self._changed.set()

    async def _receive(self, turn: "_Turn") -> None:
        session = self._loop.session
        while session.state is not ClientState.FINISHED:
            try:
                if session.state is ClientState.LOST:
                    await self._renew(turn)
                message = await self._lifeline.receive()
            except LinkError:
                session.lost()
                if not self._lifeline.can_renew:
                    raise
                continue
            if isinstance(message, Failed):
                self._take_failure(message)
                continue
            tokens, replies = self._loop.received(message)
            self._send(replies)
            self._changed.set()
            match message:
                case Opened():
                    self._was_served = True
                    self._rtt = self._clock() - self._opened_at
                case Commit() if tokens:
                    self._steering.committed(len(tokens), message.seen, self._clock())
                    turn.meter.committed()
                    turn.show(tokens, self._loop.run)
                case Finished():
                    turn.meter.finished()
                    turn.show((), ())

    async def _renew(self, turn: "_Turn") -> None:
        await self._lifeline.renew()
        if self.offline.keep:
            turn.show(self.keep(len(self._loop.run)), ())
        self._send(self._loop.reopen())

    def _take_failure(self, failed: Failed) -> None:
        """Raises RefusedError where the session cannot go on, here or elsewhere."""
        session = self._loop.session
        # Who has not begun had better hear that there is no room than wait for it.
        has_begun = bool(session.answer) or self._begins_alone
        will_pass = (failed.code in _PASSING and has_begun) or (
            failed.code is FailureCode.DRAINING and self._was_served
        )
        if not (self._lifeline.can_renew and will_pass):
            self._loop.received(failed)
            over_quota = failed.code is FailureCode.QUOTA
            raise RefusedError(failed.message, failed.retry_after, over_quota=over_quota)
        session.lost()
        self._lifeline.drop(failed.retry_after)

    async def _draft(self, turn: "_Turn") -> None:
        """Returns where an answer that is written alone has come to its end."""
        loop = self._loop
        waited = Waited(loop.session.passes)
        while True:
            self._changed.clear()
            is_alone = not self._lifeline.is_good
            if self._abandoned and self._lifeline.state is not LinkState.ONLINE:
                return
            if is_alone and self._kept and loop.is_whole:
                return
            step = loop.begin_step()
            if step is None or self._drafter is None:
                if not is_alone:
                    await self._changed.wait()
                    continue
                patience = 0.0 if self._lifeline.is_held else self.offline.patience
                left = waited.left(patience, loop.session.passes)
                if left <= 0:
                    return
                began = self._clock()
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._changed.wait()
                waited.add(self._clock() - began)
                continue
            is_first = self._levels == turn.levels_before
            began = self._clock()
            try:
                expansion = step.expansion or self._steering.expansion
                proposals = await self._drafter.draft(step.view, step.states, expansion)
                grows = loop.drafted(step, proposals)
            except Exception as error:  # whatever a model raises, or is wrong with what it proposes
                self._note = f"the drafter failed ({error or type(error).__name__}); the answer went on without it"
                self._send(loop.retire())
                continue
            if not is_first and step.expansion is None:  # the first also reads the prompt
                self._steering.drafted(step.new_nodes, self._clock() - began)
            self._send(grows)
            if loop.answering:
                turn.show((), loop.run)

    def _summarise(self, turn: "_Turn", settings: Settings, failure: OutriderError | None) -> Answer:
        session = self._loop.session
        traffic = self._lifeline.traffic.since(turn.traffic_before)
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
            reconnects=self._lifeline.reconnects - turn.reconnects_before,
            draft=self._draft_name,
            rule=settings.rule,
            state_bytes=traffic.state,
        )
        is_over = failure is None and session.finished is not None
        run = () if is_over else self._loop.run
        return Answer(
            tokens,
            self._reason(failure),
            stats,
            run,
            levels.drafted,
            levels.overrun,
            str(failure or ""),
            self._note or self._loop.note,
            self._kept,
        )

    def _reason(self, failure: OutriderError | None) -> str:
        finished = self._loop.session.finished
        if failure is not None:
            return "error"
        if finished is None:
            return FinishReason.CANCELLED.value if self._abandoned else OFFLINE
        return finished.reason.value


@dataclass(frozen=True, slots=True)
class _Turn:
    """What is kept of one answer beside the session."""

    meter: Meter
    tally: ProvisionalTally
    watch: Watch
    traffic_before: Traffic
    levels_before: Levels
    reconnects_before: int

    def show(self, committed: Sequence[int], provisional: Sequence[int]) -> None:
        self.tally.update(committed, provisional)
        self.watch(committed, provisional)
