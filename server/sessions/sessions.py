"""All sessions of this server and the slots they hold: who joins, what the next pass computes, what came of it.

No asyncio, grpc, torch or clock: time is an argument, messages go to a listener, and whoever calls `plan` runs the
pass and then calls `complete`. Passes do not overlap, so a slot given back in mid-pass is written again only after it.
"""

from collections.abc import Callable, Iterable, Sequence

from common.models.slots import SlotPool
from common.protocol.errors import PeerError
from common.protocol.messages import Commit, Extend, Failed, FailureCode, FromClient, FromServer, Open
from common.protocol.terms import Terms
from common.protocol.work import Progress
from server.events import Tell, unheard
from server.fault_isolation import FaultIsolation
from server.passes.batch import Batch, Outcome, Part, computed_tokens, make_segment
from server.passes.pass_cost import PassCost
from server.passes.scheduler import share
from server.passes.server_drafting import Assistance, Level, claim_assistance, dismiss_one_aide
from server.passes.state_export import Export, claim
from server.passes.verify_demand import worthwhile_demands
from server.sessions.accounting import Books
from server.sessions.admission import Bounds
from server.sessions.counters import Counters
from server.sessions.entry import Listener, Member
from server.sessions.late_frames import comes_late, reading_units
from server.sessions.quotas import Quotas
from server.sessions.refusal import Reason, TurnedAwayError
from server.sessions.registry import Roster

_BEFORE_PASS = "before its pass"
_BEFORE_LEVEL = "before a level"


class Sessions:
    def __init__(
        self,
        terms: Terms,
        bounds: Bounds,
        capacity: int,
        quotas: Quotas = Quotas({}),  # noqa: B008
        tell: Tell = unheard,
    ):
        """`capacity` is the number of slots: positions and nodes of all sessions together. `tell` hears what happens to
        them."""
        self.terms = terms
        self._bounds = bounds
        self._pool = SlotPool(capacity)
        self._books = Books(quotas, tell)
        self._roster = Roster(terms, bounds, self._pool, quotas, self._books)
        self._pulse = self._roster.pulse
        self._cost = PassCost()
        self._pass = 0  # the number of the latest plan: the clock of fairness
        self._level = 0  # the number of the latest claim of a level
        self._draining = False

    def __len__(self) -> int:
        return len(self._roster.members)

    @property
    def counters(self) -> Counters:
        return self._books.counters

    @property
    def away(self) -> int:
        """Sessions that are kept for clients to come back to."""
        return len(self._roster.leases)

    @property
    def running(self) -> int:
        """Answers on which a pass has worked already."""
        return sum(member.meter is not None and member.meter.passes > 0 for member in self._roster.members)

    @property
    def waiting(self) -> int:
        """Answers that no pass has worked on yet."""
        return sum(member.meter is not None and not member.meter.passes for member in self._roster.members)

    @property
    def aides(self) -> int:
        """Drafters of the server's own that live, those of absent sessions included."""
        return sum(member.aide is not None for member in (*self._roster.members, *self._roster.leases.members))

    @property
    def free_slots(self) -> int:
        return self._pool.free

    @property
    def held_slots(self) -> int:
        return self._pool.capacity - self._pool.free

    # What clients do.

    def receive(self, listener: Listener, message: FromClient, now: float) -> None:
        """Raises PeerError where the client breaks the protocol or asks for what cannot be; see `fail`.

        What was under way when its stream ended is ignored.
        """
        if listener.ended:
            return
        member = self._roster.of(listener)
        try:
            if member is not None:
                self._hear(member, message, now)
            elif isinstance(message, Open):
                self._open(listener, message, now)
            else:
                raise PeerError("the first frame of a stream must be Open")
        except TurnedAwayError as error:
            session = message.session if isinstance(message, Open) else member.session.id if member else ""
            self._books.turned_away(session, listener.client, error)
            raise

    def hear_out(self, listener: Listener, now: float) -> None:
        """Nothing more comes on this stream: its answer goes on to its end, and the stream ends with it.

        The client has closed its side or is gone: a connection that broke looks the same at first, and `leave` may
        follow much later or at once. So that nothing hangs on telling the two apart, its session is kept either way.
        """
        member = self._roster.of(listener)
        if member is None:
            listener.end()
        else:
            member.silent = True
            self._dismiss_if_over(member, now)

    def leave(self, listener: Listener, now: float) -> None:
        """The stream is gone: its session, if it still has one, is kept for a while."""
        member = self._roster.of(listener)
        if member is not None:
            self._roster.part_with(member, now)

    def fail(self, listener: Listener, error: PeerError) -> None:
        """Ends one stream and its session, if it has one, with a sentence for the person. What was merely refused may
        be asked for again."""
        member = self._roster.of(listener)
        was_turned_away = isinstance(error, TurnedAwayError)
        if not was_turned_away:
            self._books.failed(listener, member, error.code)
        if member is not None and was_turned_away:
            self._roster.put_away(member, member.active)
        elif member is not None:
            self._roster.drop(member)
        listener.put(Failed(error.code, str(error), error.retry_after))
        listener.end()

    # What the operator does.

    def drain(self) -> None:
        """Takes no new sessions or turns from here on; answers that are being made go on."""
        self._draining = True
        self._books.draining(len(self))
        self._roster.leases.end()
        for member in list(self._roster.members):
            self._dismiss_if_over(member, 0.0)  # nobody is kept any more

    def fail_all(self, error: PeerError) -> None:
        for member in list(self._roster.members):
            self.fail(member.listener, error)

    # What passes do.

    def next_due(self) -> float:
        """The earliest time at which a session wants a pass or a lease ends; infinite while all must first hear from
        their clients."""
        isolation = self._isolating("while nothing was due")
        here = isolation.ask_each(self._roster.members, self._roster.due)
        owed = isolation.ask_each(self._owed, lambda member: member.session.due())
        return min([self._roster.leases.next_end, *(due for _, due in (*here, *owed))])

    def plan(self, now: float) -> Batch[Member] | None:
        """The next pass, or None where no session is due. A session that cannot be planned fails alone."""
        due = self._those(self._roster.members, lambda member: self._roster.is_due(member, now), _BEFORE_PASS)
        self._roster.leases.expire(now)
        self._make_room(due)
        due += self._those(self._owed, lambda member: member.session.due() <= now, _BEFORE_PASS)
        due = [member for member in due if self._roster.keeps(member)]
        budget = min(self._bounds.pass_tokens, self._pool.free)
        shares = share(worthwhile_demands(due, budget, self._cost.estimate, self._isolating(_BEFORE_PASS)), budget)
        self._pass += 1
        parts = [
            self._part(member, tokens)
            for member, tokens in zip(due, shares, strict=True)
            if tokens and self._roster.keeps(member)
        ]
        batch = Batch([part for part in parts if part is not None], now)
        if not batch.parts:
            return None
        for part in batch.parts:
            part.owner.in_pass = True
        self.counters.passes += 1
        self.counters.session_passes += len(batch.parts)
        self.counters.packed_tokens += batch.tokens
        return batch

    def complete(self, batch: Batch[Member], outcomes: Sequence[Outcome], now: float) -> None:
        """Takes what the target decided for each part."""
        self._pulse.passed(now - batch.began)
        self._cost.observe(batch.tokens, now - batch.began)
        isolation = self._isolating("after its pass")
        for part, outcome in zip(batch.parts, outcomes, strict=True):
            with isolation(part.owner):
                self._complete(part, outcome, now)

    # What the server drafts itself.

    def claim_assistance(self) -> Assistance[Member] | None:
        """A level that is to be drafted here, if any; its result must be handed to `assist` before the next claim."""
        asking = self._those(self._roster.members, lambda member: member.session.asks_for_assistance, _BEFORE_LEVEL)
        self._pulse.rivals = max(1, len(asking))
        self._level += 1
        asked = claim_assistance(asking, self._level, self._isolating(_BEFORE_LEVEL))
        self._pulse.is_drafting = asked is not None
        if asked is not None and asked.aide is None:
            dismiss_one_aide([*self._roster.leases.members, *self._roster.members])
        return asked

    def assist(self, asked: Assistance[Member], level: Level | None, seconds: float) -> None:
        """Takes a drafted level, or None where it could not be drafted: that session goes on without."""
        member = asked.owner
        self._pulse.is_drafting = False
        if not self._roster.keeps(member):
            return
        member.aide = level.aide if level is not None and asked.aide_may_stay else None
        if level is None:
            if asked.wanted == member.wanted:
                member.session.forgo_assistance()
            return
        self.counters.assisted_levels += 1
        if asked.is_first:
            self._pulse.drafted_first(seconds)
        else:
            self._pulse.drafted(seconds)
        with self._isolating("after a level")(member):
            member.session.assist(asked.epoch, asked.view, level.proposals)

    # What draft state goes down. It is computed after `plan` and before its pass, in the same thread.

    def claim_state(self) -> list[Export[Member]]:
        """A share of the draft state that clients lack; each part of it must be handed to `send_state`."""
        return claim(self._roster.members, self._isolating("before its draft state"))

    def send_state(self, exports: Sequence[Export[Member]], payloads: Sequence[bytes | None], now: float) -> None:
        """Takes what was encoded for each export; None where it could not be made. That session goes on without."""
        isolation = self._isolating("with its draft state")
        for export, payload in zip(exports, payloads, strict=True):
            if self._roster.has(export.owner):
                with isolation(export.owner):
                    self._send_state(export, payload, now)

    # Details.

    def _send_state(self, export: Export[Member], payload: bytes | None, now: float) -> None:
        member = export.owner
        if payload is None:
            member.wanted = None
            self._deliver(member, member.session.forgo_state(), now)
            return
        frame = member.session.state_frame(export.span, payload, now)
        if frame is not None:
            self.counters.state_sent(frame.kind, len(payload))
            self._deliver(member, [frame], now)

    def _isolating(self, when: str) -> FaultIsolation[Member]:
        return FaultIsolation(when, self._fail_internally)

    def _those(self, members: Iterable[Member], is_meant: Callable[[Member], bool], when: str) -> list[Member]:
        return [member for member, is_one in self._isolating(when).ask_each(members, is_meant) if is_one]

    def _hear(self, member: Member, message: FromClient, now: float) -> None:
        session = member.session
        turn, stale, states = session.turn, session.tree.stale, member.arrived_states
        if comes_late(session, message):
            self._books.late(member, reading_units(message), now)
        if isinstance(message, Extend) and message.turn > turn:
            member.active = now
            self._roster.check_turn(member, message, now)
        replies = session.receive(message, now)
        self.counters.stale_nodes += session.tree.stale - stale
        if member.arrived_states > states:
            member.active = now
        if isinstance(message, Extend) and session.turn > turn:
            member.unserved = True
            self._books.asked(member, len(message.tokens), now)
        self._deliver(member, replies, now)

    def _open(self, listener: Listener, opened: Open, now: float) -> None:
        if self._draining:
            raise TurnedAwayError(Reason.DRAINING, "the server is going away; try another or come back later")
        member = self._roster.open(listener, opened, self._pass, now)
        self._deliver(member, member.session.greeting, now)

    @property
    def _owed(self) -> list[Member]:
        """Absent sessions that take part in a pass, where a slot is left: nobody makes room for them."""
        return self._roster.owed if self._pool.free else []

    def _make_room(self, due: Sequence[Member]) -> None:
        """Drops absent sessions and parks finished ones for what the due ones ask; where still nobody could move on,
        fails one."""
        wanted = min(self._bounds.pass_tokens, sum(member.demand.tokens for member in due))
        while self._pool.free < wanted and self._roster.leases.drop_oldest():
            pass
        holders = [member for member in self._roster.members if len(member.sequence)]
        for member in sorted(holders, key=lambda member: member.served):
            if self._pool.free >= wanted:
                return
            if not member.is_running:
                member.session.park()
                member.sequence.release()
                member.aide = None
        if wanted and not self._pool.free:
            # The one who came last has lost least.
            self.counters.preempted += 1
            error = PeerError("the server's cache is full; try again later", FailureCode.OVERLOADED)
            self.fail(holders[-1].listener, error)

    def _part(self, member: Member, tokens: int) -> Part[Member] | None:
        member.served, member.unserved = self._pass, False
        slots: list[int] = []
        if member.meter is not None:
            member.meter.passes += 1
        with self._isolating(_BEFORE_PASS)(member):
            try:
                work = member.session.plan(tokens)
                slots = self._pool.take(len(work))
                # Its root is no repeat: a turn that begins where the last one ended needs the logits there again.
                below = work.chain[:-1] if work.reaches_root else work.chain
                self.counters.recomputed_tokens += member.sequence.count_repeats(below)
                return Part(member, work, slots, make_segment(work, member.sequence, slots))
            except Exception:
                self._pool.give(slots)
                raise
        return None

    def _complete(self, part: Part[Member], outcome: Outcome, now: float) -> None:
        member = part.owner
        member.in_pass = False
        kept: set[int] = set()
        try:
            if not self._roster.keeps(member):
                return
            if isinstance(outcome, PeerError):
                # Who is away hears it from the next pass, which will not do better.
                if self._roster.has(member):
                    self.fail(member.listener, outcome)
                return
            progress = member.session.complete(part.work, outcome, now)
            commits = [reply for reply in progress.replies if isinstance(reply, Commit)]
            committed = [token for commit in commits for token in commit.tokens]
            self._books.judged(part, progress)
            self._books.committed(member, len(committed), now)
            kept = self._keep(part, progress, committed)
        finally:
            self._pool.give(slot for slot in part.slots if slot not in kept)
        self._deliver(member, progress.replies, now)

    def _keep(self, part: Part[Member], progress: Progress, committed: Sequence[int]) -> set[int]:
        if not progress.chain_kept:
            return set()
        chain = len(part.work.chain)
        slots = [*part.slots[:chain], *(part.slots[chain + index] for index in progress.nodes_kept)]
        part.owner.sequence.keep(slots, computed_tokens(part, committed))
        return set(slots)

    def _deliver(self, member: Member, replies: Sequence[FromServer], now: float) -> None:
        member.sequence.cut(member.session.processed)
        is_here = self._roster.has(member)
        if is_here:
            for reply in replies:
                member.listener.put(reply)
        self._books.delivered(member, replies, now)
        if not is_here:
            return  # on lease: its session tells what was computed meanwhile when its client is back
        if member.listener.ended:
            # It does not read. What waited was dropped, so the answer cannot go on.
            self._books.failed(member.listener, member, FailureCode.OVERLOADED)
            self._roster.drop(member)
        else:
            self._dismiss_if_over(member, now)

    def _dismiss_if_over(self, member: Member, now: float) -> None:
        """Ends the stream of a session from which nothing can come any more."""
        if not member.is_running:
            if self._draining or member.silent:
                self._roster.part_with(member, now)
                member.listener.end()
        elif member.silent and member.session.waits_for_its_client:
            self._roster.part_with(member, now)
            # For whoever closed a side on purpose. Of a broken connection nobody hears it, and nobody is at fault.
            sentence = "the answer cannot go on without acknowledgements, but the client has closed its side"
            member.listener.put(Failed(FailureCode.PROTOCOL, sentence))
            member.listener.end()

    def _fail_internally(self, member: Member) -> None:
        if self._roster.has(member):
            error = PeerError("the server could not compute this answer; try again", FailureCode.INTERNAL)
            self.fail(member.listener, error)
        elif self._roster.leases.has(member):
            self._roster.leases.drop(member)
