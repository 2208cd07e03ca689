"""The asyncio shell of one session: drives the drafting loop with a reconnecting stream, a paced drafter and a clock.

What to draft and send is decided in `drafting`, what the state of the link is in `link_state`. Here are the tasks that
ask for these decisions, and what to do about failures: which are retried, which are raised, and when an answer ends
offline. Clock and worker are arguments, so that it also runs on a virtual clock. It must not depend on text or on a
screen.
"""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress

from client.answer import DRAFTER_FAILED, OFFLINE, Answer, AnswerRecord, TokenListener
from client.drafting.controller import Controller, FixedTree, TreeController
from client.drafting.loop import DraftingLoop, Step
from client.drafting.pace import DetachedDrafter, Levels, PacedDrafter
from client.drafting.provisional import ProvisionalCount
from client.errors import ServerRefusedError
from client.link.link_state import LinkState
from client.link.offline import OfflineOptions, OfflineWait, WaitListener, ignore_wait
from client.link.reconnecting_stream import Dial, LeaveFull, LinkListener, ReconnectingStream, ignore_link_changes
from client.link.stream import Stream
from client.refusals import Refusals
from client.stats import Meter
from common.clock import Clock
from common.drafters.best_first import Expansion
from common.drafters.drafter import Drafter
from common.pacing import PacedThread, WorkerFactory
from common.protocol.client_session import ClientSession
from common.protocol.errors import MisuseError, OutriderError
from common.protocol.logprobs import TokenLogprobs
from common.protocol.messages import (
    Commit,
    Failed,
    Finished,
    FinishReason,
    FromClient,
    Grow,
    Open,
    Opened,
    Settings,
)
from common.protocol.transitions import ClientState
from common.rpc.errors import LinkError
from common.rpc.traffic import Traffic


class Conversation:
    """`drafter` may be None. Drafted levels are paced to `pace` seconds. `tree` bounds the drafter's tree; a
    controller does where it is None. `stream` is None where the server could not be reached; `dial` opens a new one
    for one that broke, and without it the answer breaks off. With `leave_full` a replica that has no room is left for
    another before a refusal is told."""

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
        offline: OfflineOptions = OfflineOptions(),  # noqa: B008
        leave_full: LeaveFull | None = None,
    ):
        self._link = ReconnectingStream(stream, dial, self._link_changed, clock)
        self._loop, self._leave_full = loop, leave_full
        self._drafter = None if drafter is None else PacedDrafter(drafter, pace, make_worker)
        self._tree_controller: TreeController = Controller() if tree is None else FixedTree(tree)
        self._draft_name, self._clock = draft_name, clock
        self.offline = offline  # may be changed between two answers
        self.on_wait: WaitListener = ignore_wait  # likewise
        self._on_link_change: LinkListener = ignore_link_changes
        self._changed = asyncio.Event()
        self._opened_at: float | None = None
        self._rtt_s = 0.0
        self._refusals = Refusals()
        self._began_offline = stream is None
        self._note, self._abandoned = "", False

    async def answer(
        self,
        tokens: Sequence[int],
        settings: Settings,
        on_tokens: TokenListener,
        on_link_change: LinkListener = ignore_link_changes,
        offered: Sequence[int] = (),
    ) -> Answer:
        """The answer that follows `tokens`. `offered` was drafted for it before and is to be verified now.

        Raises OutriderError where nothing of it came; one that breaks off later is returned with its `failure`. What a
        listener raises is raised.
        """
        session = self._loop.session
        self._note, self._abandoned, self._on_link_change = "", False, on_link_change
        self._refusals.begin_answer()
        self._tree_controller.begin_turn()
        opening = [*self._loop.begin_turn(tokens, settings), *self._loop.offer(offered)]
        self._follow_link()
        self._began_offline = not self._link.is_good
        if self._began_offline:
            on_link_change(self._link.state)
        record = AnswerRecord(
            Meter(self._clock), ProvisionalCount(), on_tokens, self._link.traffic, self._levels, self._link.reconnects
        )
        self._send(opening)
        self._link.expect_answer()
        failure: OutriderError | None = None
        try:
            await first_of(self._receive(record), self._draft(record), self._link.run_heartbeat())
        except OutriderError as error:
            failure = error
        finally:
            self._on_link_change = ignore_link_changes  # before a stream is left, which is no loss
            self._link.expect_nothing()
            if session.state is not ClientState.FINISHED:
                session.lost()
                self._link.drop()
        answer = self._summarise(record, settings, failure)
        is_refused = isinstance(failure, ServerRefusedError) and not self._began_offline
        if failure is not None and not answer.tokens and (is_refused or not answer.provisional):
            raise failure
        return answer

    def cancel(self) -> None:
        """Stops the answer in progress, if any; one that is drafted offline at once."""
        self._abandoned = True
        if self._link.is_good:
            self._send(self._loop.cancel())
        self._changed.set()

    def retry_now(self) -> None:
        """Tries a lost server at once."""
        self._link.retry_now()

    def hold(self) -> None:
        """From the next answer on nothing is verified and no server is waited for, until `release`."""
        self._link.hold()

    def release(self) -> None:
        """The next answer tries the server at once."""
        self._link.release()

    def accept_unverified(self, count: int) -> tuple[int, ...]:
        """Makes the first `count` provisional tokens final without verification, and returns those that could be: while
        the link is lost all, else none. The token listener is not called."""
        accepted = self._loop.accept_unverified(count)
        self._changed.set()
        return accepted

    @property
    def session(self) -> ClientSession:
        """To look at what is drafted and committed; only the conversation acts on it."""
        return self._loop.session

    @property
    def tokens(self) -> Sequence[int]:
        """What both ends hold: the latest prompt and its answer."""
        session = self._loop.session
        return () if session.state is ClientState.NEW else session.tree.tokens

    def logprobs_of(self, index: int) -> TokenLogprobs | None:
        """Of the committed token at this index of the answer, None where there are none."""
        return self._loop.session.logprobs_of(index)

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
        return self._link.traffic

    def upload_s(self) -> float:
        """Seconds by which the server's answer may come later for what is being sent to it."""
        return self._link.upload_s()

    @property
    def lost_by(self) -> str:
        """Why the latest stream was lost, as a person may read it; empty while none was."""
        return self._link.lost_by

    def detach_drafter(self) -> DetachedDrafter:
        """Ends the link for good, between two answers: nothing more is sent or received. Raises MisuseError where
        nothing drafts."""
        if self._drafter is None:
            raise MisuseError("offline answers need a draft model")
        self._link.close()
        self._link = ReconnectingStream(None, traffic=self._link.traffic)
        return DetachedDrafter(self._drafter, self._draft_name, self._loop.undrafted_states)

    def close(self) -> None:
        """Ends the stream, and waits for a level that is still being drafted."""
        self._link.close()
        if self._drafter is not None:
            self._drafter.close()

    async def aclose(self) -> None:
        """As `close`, while the event loop goes on: the first level of a long prompt may take many seconds."""
        self._link.close()
        if self._drafter is not None:
            await asyncio.to_thread(self._drafter.close)

    @property
    def _levels(self) -> Levels:
        return Levels() if self._drafter is None else self._drafter.levels

    def _send(self, messages: Sequence[FromClient]) -> None:
        for message in messages:
            if isinstance(message, Grow) and message.nodes:
                self._tree_controller.sent(message.nodes[-1].id, self._clock())
            if isinstance(message, Open):
                # A constraint is compiled before Opened comes, which would count as the link's.
                self._opened_at = self._clock() if message.settings.constraint is None else None
            self._link.send(message)

    def _link_changed(self, state: LinkState) -> None:
        self._follow_link()
        if self._abandoned and self._link.is_good:
            self._send(self._loop.cancel())
        self._on_link_change(state)

    def _follow_link(self) -> None:
        if self._link.is_good:
            self._loop.go_online()
        else:
            self._loop.go_offline(self.offline.limit_tokens)
        self._changed.set()

    # Receiving.

    async def _receive(self, record: AnswerRecord) -> None:
        session = self._loop.session
        while session.state is not ClientState.FINISHED:
            try:
                if session.state is ClientState.LOST:
                    await self._reconnect(record)
                message = await self._link.receive()
            except LinkError:
                session.lost()
                if not self._link.can_reconnect:
                    raise
                continue
            if isinstance(message, Failed):
                await self._take_failure(message)
                continue
            tokens, replies = self._loop.received(message)
            self._send(replies)
            self._changed.set()
            match message:
                case Opened():
                    self._refusals.served()
                    self._rtt_s = 0.0 if self._opened_at is None else self._clock() - self._opened_at
                case Commit() if tokens:
                    self._tree_controller.committed(len(tokens), session.carried, message.seen, self._clock())
                    record.meter.committed()
                    record.show(tokens, self._loop.run)
                case Finished():
                    record.meter.finished()
                    record.show((), ())

    async def _reconnect(self, record: AnswerRecord) -> None:
        await self._link.reconnect()
        if self.offline.accept_unverified:
            record.show(self.accept_unverified(len(self._loop.run)), ())
        self._send(self._loop.reopen())

    async def _take_failure(self, failed: Failed) -> None:
        """Raises ServerRefusedError where the session cannot go on, here or elsewhere."""
        session, refusals = self._loop.session, self._refusals
        leave = self._leave_full if refusals.is_of_one_replica(failed) else None
        if leave is not None and await leave(failed.retry_after):
            session.lost()
            self._link.drop(cause=failed.message)
            return
        can_retry = refusals.may_ask_again(failed, bool(session.answer) or self._began_offline)
        if not (self._link.can_reconnect and can_retry):
            self._loop.received(failed)
            raise refusals.error_for(failed)
        session.lost()
        self._link.drop(failed.retry_after, failed.message)

    # Drafting.

    async def _draft(self, record: AnswerRecord) -> None:
        """Returns where an answer that is drafted offline has come to its end."""
        drafter, wait, has_waited = self._drafter, OfflineWait(self._loop.session.passes), True
        while not self._has_ended_offline:
            self._changed.clear()
            if drafter is not None and has_waited:
                drafter.rested()
            step = self._loop.begin_step()
            has_waited = step is None
            if step is not None and drafter is not None:
                await self._draft_level(drafter, step, record)
            elif self._link.is_good:
                await self._changed.wait()
            elif not await self._wait_for_server(wait):
                return

    @property
    def _has_ended_offline(self) -> bool:
        """Whether the answer is over although the server has not said so."""
        if self._abandoned and self._link.state is not LinkState.ONLINE:
            return True
        is_awaited = self._link.state in (LinkState.ONLINE, LinkState.RESUMING)
        return not is_awaited and self._loop.session.unverified > 0 and self._loop.is_whole

    async def _draft_level(self, drafter: PacedDrafter, step: Step, record: AnswerRecord) -> None:
        is_first = self._levels == record.levels_before
        began, tree, bounds = self._clock(), self._loop.session.tree, step.bounds(self._tree_controller.expansion)
        try:
            proposals = await drafter.draft(step.view, step.states, bounds)
            newest = tree.last_id
            grows = self._loop.drafted(step, proposals)
        except Exception as error:  # whatever a model raises, or is wrong with what it proposes
            self._note = f"{DRAFTER_FAILED} ({str(error) or type(error).__name__}); the answer went on without it"
            self._send(self._loop.retire())
            return
        if not is_first and step.expansion is None:  # the first also reads the prompt
            added = range(newest + 1, tree.last_id + 1)
            self._tree_controller.drafted(step.new_nodes, added, self._clock() - began, bounds.is_one_draw(step.view))
        self._send(grows)
        if self._loop.answering:
            record.show((), self._loop.run)

    async def _wait_for_server(self, wait: OfflineWait) -> bool:
        """Waits until something changes; False where the server has been waited for long enough."""
        most_s = 0.0 if self._link.is_held else self.offline.wait_s
        left_s = wait.left_s(most_s, self._link.answer_upload_s(), self._loop.session.passes)
        if left_s <= 0:
            return False
        if wait.begins(self._link.state):
            self.on_wait(left_s)
        began = self._clock()
        with suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await self._changed.wait()
        wait.add(self._clock() - began)
        return True

    # The answer.

    def _summarise(self, record: AnswerRecord, settings: Settings, failure: OutriderError | None) -> Answer:
        session, link = self._loop.session, self._link
        levels = self._levels.since(record.levels_before)
        is_over = failure is None and session.finished is not None
        return Answer(
            tuple(session.answer),
            self._reason(failure),
            record.stats(session, link.traffic, link.reconnects, self._rtt_s, self._draft_name, settings.rule),
            () if is_over else self._loop.run,
            levels.drafted,
            levels.overrun,
            str(failure or ""),
            "; ".join(filter(None, (self._note or self._loop.note, self._link.hung_up_by))),
        )

    def _reason(self, failure: OutriderError | None) -> str:
        finished = self._loop.session.finished
        if failure is not None:
            return "error"
        if finished is None:
            return FinishReason.CANCELLED.value if self._abandoned else OFFLINE
        return finished.reason.value


async def first_of(*coroutines: Coroutine[None, None, None]) -> None:
    """Runs them together until the first ends or fails, which cancels the others."""
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
