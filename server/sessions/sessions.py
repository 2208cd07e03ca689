"""All sessions of this server and the K/V slots they hold: what clients send, what the next pass computes, its results.

No asyncio, grpc, torch or clock: time is an argument in seconds, messages go to a sink, and the caller of `plan`
runs the pass and then calls `complete`. Passes do not overlap, so a slot that is freed during a pass is written only
after it.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from common.integers import Integers
from common.models.slots import SlotPool
from common.protocol.errors import PeerError
from common.protocol.messages import Extend, Failed, FailureCode, FromClient, FromServer, Open
from common.protocol.terms import Terms
from server.events import EventListener, ignore_event
from server.fault_isolation import FaultIsolation
from server.passes.batch import PassOutcome, PlannedPass
from server.passes.pass_cost import PassCost
from server.passes.server_drafting import DraftedLevel, LevelScheduler, ServerDraftTask, drop_spare_drafters
from server.passes.state_export import StateExport, claim_exports
from server.refusal import AdmissionRefusedError
from server.sessions.accounting import Accounting, AnswerCounts, count_answers
from server.sessions.admission import ServingLimits
from server.sessions.counters import Counters
from server.sessions.entry import MessageSink, SessionEntry
from server.sessions.late_frames import comes_late, reading_units
from server.sessions.pass_schedule import schedule_sessions
from server.sessions.quotas import Quotas
from server.sessions.reclaim import SlotReclaim
from server.sessions.registry import SessionRegistry
from server.sessions.shared_prefixes import SharedPrefixes

_BEFORE_PASS, _BEFORE_LEVEL = "before its pass", "before a level"


class Sessions:
    def __init__(
        self,
        terms: Terms,
        limits: ServingLimits,
        capacity: int,
        quotas: Quotas = Quotas({}),  # noqa: B008
        on_event: EventListener = ignore_event,
        peers: list[SessionRegistry] | None = None,
        share_prefixes: str = "client",
    ):
        """`capacity` is the number of K/V slots: positions and nodes of all sessions together. `on_event` is called for
        everything that happens to sessions. `peers` are as `SessionRegistry` has them, `share_prefixes` as
        `SharedPrefixes`."""
        self.terms = terms
        self._limits = limits
        self._pool = SlotPool(capacity)
        self._accounting = Accounting(quotas, on_event)
        self._prefixes = SharedPrefixes(self._pool, share_prefixes, self.counters)
        self._registry = SessionRegistry(terms, limits, capacity, self._prefixes, quotas, self._accounting, peers)
        self._reclaim = SlotReclaim(self._pool, self._prefixes.cache, self._registry, limits.pass_tokens, self._preempt)
        self._pass_timings = self._registry.pass_timings
        self._cost = PassCost()
        self._pass = 0  # the number of the latest plan: the clock of fairness
        self._levels = LevelScheduler()

    def __len__(self) -> int:
        return len(self._registry.entries)

    @property
    def counters(self) -> Counters:
        return self._accounting.counters

    @property
    def away(self) -> int:
        """Sessions on lease."""
        return len(self._registry.leases)

    def count_answers(self, now: float) -> AnswerCounts:
        """Of sessions whose streams stand."""
        return count_answers(self._registry.entries, now)

    @property
    def server_drafters(self) -> int:
        """Existing server drafters, those of sessions on lease included."""
        return sum(entry.drafter is not None for entry in (*self._registry.entries, *self._registry.leases.entries))

    @property
    def free_slots(self) -> int:
        """Those of cached prefixes that no session uses count too."""
        return self._reclaim.available

    @property
    def held_slots(self) -> int:
        return self._pool.capacity - self.free_slots

    # Frames and streams of clients.

    def receive(self, sink: MessageSink, message: FromClient, now: float) -> None:
        """Raises PeerError where the client breaks the protocol or asks for something impossible; see `fail`.

        Frames of a stream that has ended are ignored.
        """
        if sink.ended:
            return
        entry = self._registry.entry_of(sink)
        try:
            if entry is not None:
                self._hear(entry, message, now)
            elif not isinstance(message, Open):
                raise PeerError("the first frame of a stream must be Open")
            else:
                entry, replies = self._registry.open(sink, message, self._pass, now)
                self._deliver(entry, replies, now)
        except AdmissionRefusedError as error:
            session = message.session if isinstance(message, Open) else entry.session.id if entry else ""
            self._accounting.refused(session, sink.client, error)
            raise

    def is_to_prepare(self, sink: MessageSink, message: Open | Extend, now: float) -> bool:
        """Whether the costly work that a request with a constraint needs before it is received is of use now. Raises
        PeerError where the request cannot be served now, whatever its constraint is."""
        return self._registry.is_to_prepare(sink, message, now)

    def preparing(self, sink: MessageSink, message: Open | Extend, now: float) -> AbstractContextManager[bool]:
        """Encloses that work and receiving the request; see `SessionRegistry.preparing`."""
        return self._registry.preparing(sink, message, now)

    def half_close(self, sink: MessageSink, now: float) -> None:
        """The client has closed its side of the stream: its answer goes on to its end, and the stream ends with it.

        A broken connection looks the same at first, and `leave` may follow at once or much later. Therefore both are
        treated alike, and the session goes on lease either way.
        """
        entry = self._registry.entry_of(sink)
        if entry is None:
            sink.end()
        else:
            entry.half_closed = True
            self._end_stream_if_over(entry, now)

    def leave(self, sink: MessageSink, now: float) -> None:
        """The stream is gone. Its session, if it has one, goes on lease."""
        entry = self._registry.entry_of(sink)
        if entry is not None:
            self._registry.disconnect(entry, now)

    def fail(self, sink: MessageSink, error: PeerError) -> None:
        """Ends one stream with an error, and its session, if it has one. After a refusal the session goes on lease."""
        entry = self._registry.entry_of(sink)
        was_turned_away = isinstance(error, AdmissionRefusedError)
        if not was_turned_away:
            self._accounting.failed(sink, entry, error.code)
        if entry is not None and was_turned_away:
            self._registry.put_on_lease(entry, entry.last_active_s)
        elif entry is not None:
            self._registry.drop(entry)
        sink.put(Failed(error.code, str(error), error.retry_after))
        sink.end()

    # The server stops.

    def drain(self) -> None:
        """Refuses new sessions and turns from now on; running answers go on."""
        self._registry.is_draining = True
        self._accounting.draining(len(self))
        self._registry.leases.end()
        for entry in list(self._registry.entries):
            self._end_stream_if_over(entry, 0.0)  # the time does not matter: there are no leases any more

    def fail_all(self, error: PeerError) -> None:
        for entry in list(self._registry.entries):
            self.fail(entry.sink, error)

    # Passes.

    def next_due(self) -> float:
        """The earliest time at which a session wants a pass or a lease ends; infinite while all wait for their
        clients."""
        isolation = self._isolation("while nothing was due")
        here = isolation.call_each(self._registry.entries, self._registry.due)
        owed_a_pass = isolation.call_each(self._owed_a_pass, lambda entry: entry.session.due())
        return min([self._registry.leases.next_end, *(due for _, due in (*here, *owed_a_pass))])

    def plan(self, now: float) -> PlannedPass[SessionEntry] | None:
        """The next pass, or None where no session is due. A session that cannot be planned fails alone."""
        registry, isolation = self._registry, self._isolation(_BEFORE_PASS)
        isolation.call_each(registry.entries, lambda each: registry.evict_if_abandoned(each, now))
        due = self._select_due(registry.entries, now)
        if due:
            here = set(due)
            others = [entry for entry in registry.entries if entry not in here]
            due += self._select_due(others, now, can_join_pass=True)
        registry.leases.expire(now)
        self._reclaim.make_available(due)
        due += self._select_due(self._owed_a_pass, now)
        due = self._prefixes.without_waiting([entry for entry in due if registry.holds(entry)])
        self._reclaim.free(due)
        budget = min(self._limits.pass_tokens, self._pool.free)
        shares = schedule_sessions(due, registry.entries, budget, self._cost, isolation, now)
        self._pass += 1
        batch: PlannedPass[SessionEntry] = PlannedPass([], [], now)
        for entry, tokens in zip(due, shares, strict=True):
            if not tokens or not registry.holds(entry):
                continue
            entry.last_pass, entry.awaits_first_pass = self._pass, False
            with isolation(entry):
                scheduled = entry.session.plan(tokens)
                self._accounting.scheduled(entry, scheduled)
                slots = entry.sequence.take(len(scheduled))
                batch.scheduled.append(replace(scheduled, slots=slots, past_slots=entry.sequence.slots))
                batch.owners.append(entry)
                entry.in_pass = True
        if not batch.owners:
            return None
        self.counters.passes += 1
        self.counters.session_passes += len(batch.owners)
        self.counters.packed_tokens += batch.work.tokens
        return batch

    def complete(self, batch: PlannedPass[SessionEntry], outcomes: Sequence[PassOutcome], now: float) -> None:
        """Applies the outcome of the pass to each session."""
        self._pass_timings.pass_ended(now - batch.began)
        self._cost.observe(batch.work, now - batch.began)
        if any(isinstance(outcome, AdmissionRefusedError) for outcome in outcomes):
            drop_spare_drafters(self._registry.entries, self._registry.leases.entries)
        rejected: dict[SessionEntry, Integers] = {}
        isolation = self._isolation("after its pass")
        for entry, scheduled, outcome in zip(batch.owners, batch.scheduled, outcomes, strict=True):
            entry.in_pass, rejected[entry] = False, scheduled.slots
            with isolation(entry):
                if isinstance(outcome, PeerError):
                    self._pass_failed(entry, len(scheduled), outcome, now)
                elif self._registry.holds(entry):
                    entry.pass_fitted()
                    progress = entry.session.complete(scheduled, outcome.tokens, now, outcome.logprobs)
                    self._accounting.verified(entry, scheduled, progress, now)
                    entry.last_choices = scheduled.epoch, outcome.choices
                    # The target has moved the K/V of the accepted path behind the chain's.
                    kept = len(scheduled.chain) + len(progress.nodes_kept) if progress.chain_kept else 0
                    rejected[entry] = scheduled.slots[kept:]
                    entry.sequence.keep(scheduled.slots[:kept])
                    self._prefixes.publish(entry, scheduled.is_of_prompt)
                    self._deliver(entry, progress.replies, now)
        self._reclaim.give_back(rejected, isolation)

    def _pass_failed(self, entry: SessionEntry, tokens: int, error: PeerError, now: float) -> None:
        """A pass over so many of its tokens failed for this session."""
        fault = entry.out_of_memory(tokens, error, now) if isinstance(error, AdmissionRefusedError) else error
        # On lease it stays: the next pass will fail for it again, and then its client may be back.
        if fault is None or not self._registry.is_connected(entry):
            return
        if isinstance(fault, AdmissionRefusedError):
            self._accounting.refused(entry.session.id, entry.client, fault)
        self.fail(entry.sink, fault)

    # Server drafting.

    def claim_draft_task(self) -> ServerDraftTask[SessionEntry] | None:
        """The next level that the server should draft, if any. Its result must go to `add_drafted_level` before the
        next claim."""
        asking = self._select(self._registry.entries, lambda entry: entry.session.wants_server_drafting, _BEFORE_LEVEL)
        self._pass_timings.sessions_drafted_for = max(1, len(asking))
        present, away = self._registry.entries, self._registry.leases.entries
        task = self._levels.claim(asking, present, away, self._isolation(_BEFORE_LEVEL))
        self._pass_timings.is_drafting = task is not None
        return task

    def add_drafted_level(
        self, task: ServerDraftTask[SessionEntry], level: DraftedLevel | None, seconds: float
    ) -> None:
        """Adds a drafted level to its session. None: it could not be drafted, and the session goes on without."""
        entry = task.owner
        self._pass_timings.is_drafting = False
        if not self._registry.holds(entry):
            return
        entry.drafter = level.drafter if level is not None and task.drafter_may_stay else None
        if level is None:
            if task.state_request == entry.state_request:
                entry.session.stop_server_drafting()
            return
        self.counters.assisted_levels += 1
        if task.is_first:
            self._pass_timings.first_level_drafted(seconds)
        else:
            self._pass_timings.level_drafted(seconds)
        with self._isolation("after a level")(entry):
            entry.session.add_server_draft(task.epoch, task.view, level.proposals)

    # Draft state. It is computed after `plan` and before its pass, in the same thread.

    def claim_state(self) -> list[StateExport[SessionEntry]]:
        """Draft state that clients lack, as much as one step takes; each export must go to `send_state`."""
        return claim_exports(self._registry.entries, self._isolation("before its draft state"))

    def send_state(
        self, exports: Sequence[StateExport[SessionEntry]], payloads: Sequence[bytes | None], now: float
    ) -> None:
        """Sends what was encoded for each export. None: it could not be made, and the session goes on without."""
        isolation = self._isolation("with its draft state")
        for export, payload in zip(exports, payloads, strict=True):
            if self._registry.is_connected(export.owner):
                with isolation(export.owner):
                    self._send_state(export, payload, now)

    # Details.

    def _send_state(self, export: StateExport[SessionEntry], payload: bytes | None, now: float) -> None:
        entry = export.owner
        if payload is None:
            if export.request.state_request == entry.state_request:
                entry.state_request = None
                self._deliver(entry, entry.session.forgo_state(), now)
            return
        frame = entry.session.state_frame(export.span, payload, now)
        if frame is not None:
            self.counters.state_sent(frame.kind, len(payload))
            self._deliver(entry, [frame], now)

    def _isolation(self, when: str) -> FaultIsolation[SessionEntry]:
        return FaultIsolation(when, self._fail_internally)

    def _select(
        self, entries: Iterable[SessionEntry], is_meant: Callable[[SessionEntry], bool], when: str
    ) -> list[SessionEntry]:
        return [entry for entry, is_one in self._isolation(when).call_each(entries, is_meant) if is_one]

    def _hear(self, entry: SessionEntry, message: FromClient, now: float) -> None:
        session = entry.session
        entry.heard(now)
        turn, stale, states = session.turn, session.tree.stale, entry.acknowledged_states
        if comes_late(session, message, awaits_first_pass=entry.awaits_first_pass):
            self._accounting.late_frame(entry, reading_units(session, message), now)
        if isinstance(message, Extend) and message.turn > turn:
            entry.last_active_s = now
            self._registry.admit_next_turn(entry, message, now)
        replies = session.receive(message, now)
        self.counters.stale_nodes += session.tree.stale - stale
        if entry.acknowledged_states > states:
            entry.last_active_s = now
        if isinstance(message, Extend) and session.turn > turn:
            entry.awaits_first_pass = True
            self._accounting.answer_began(entry, len(message.tokens), now)
        self._deliver(entry, replies, now)

    @property
    def _owed_a_pass(self) -> list[SessionEntry]:
        """Sessions on lease that take part in a pass, where a slot is available: nobody is dropped for them."""
        return self._registry.owed_a_pass if self._reclaim.available else []

    def _select_due(
        self, entries: Iterable[SessionEntry], now: float, can_join_pass: bool = False
    ) -> list[SessionEntry]:
        """Those that want a pass now. Each of them adopts what is cached of its sequence, and one that lacks nothing of
        its prompt then may have to wait for drafts instead."""

        def still_wants_pass(entry: SessionEntry) -> bool:
            if entry.session.due(can_join_pass) > now:
                return False
            has_adopted = self._prefixes.adopt_cached(entry)
            return not has_adopted or entry.session.due(can_join_pass) <= now

        return self._select(entries, still_wants_pass, _BEFORE_PASS)

    def _preempt(self, entry: SessionEntry) -> None:
        self.counters.preempted += 1
        self.fail(entry.sink, PeerError("the server's cache is full; try again later", FailureCode.OVERLOADED))

    def _deliver(self, entry: SessionEntry, replies: Sequence[FromServer], now: float) -> None:
        entry.sequence.cut(entry.session.processed)
        if is_here := self._registry.is_connected(entry):
            for reply in replies:
                entry.sink.put(reply)
        self._accounting.delivered(entry, replies, now)
        if not is_here:
            return  # on lease: its session repeats what was computed meanwhile when its client is back
        if entry.sink.ended:
            # The client does not read. Waiting messages were dropped, so the answer cannot go on.
            self._accounting.failed(entry.sink, entry, FailureCode.OVERLOADED)
            self._registry.lost_answers.add(entry)
            self._registry.drop(entry)
        else:
            self._end_stream_if_over(entry, now)

    def _end_stream_if_over(self, entry: SessionEntry, now: float) -> None:
        """Ends the stream of a session that can send nothing more."""
        if not entry.is_running:
            if self._registry.is_draining or entry.half_closed:
                self._registry.disconnect(entry, now)
                entry.sink.end()
        elif entry.half_closed and entry.session.waits_for_its_client:
            self._registry.disconnect(entry, now)
            # For a client that closed its side on purpose; on a broken connection nobody reads it.
            sentence = "the answer cannot go on without acknowledgements, but the client has closed its side"
            entry.sink.put(Failed(FailureCode.PROTOCOL, sentence))
            entry.sink.end()

    def _fail_internally(self, entry: SessionEntry) -> None:
        if self._registry.is_connected(entry):
            error = PeerError("the server could not compute this answer; try again", FailureCode.INTERNAL)
            self.fail(entry.sink, error)
        elif self._registry.leases.holds(entry):
            self._registry.leases.drop(entry)
