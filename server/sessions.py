"""All sessions of this server and the slots they hold: who joins, what the next pass computes, what came of it.

No asyncio, grpc, torch or clock: time is an argument, messages go to a listener, and whoever calls `plan` runs the
pass and then calls `complete`. Passes do not overlap, so a slot given back in mid-pass is written again only after it.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from common.models.slots import SlotPool
from common.protocol.errors import PeerError
from common.protocol.messages import Commit, Failed, FailureCode, FromClient, FromServer, Open
from common.protocol.pulse import Pulse
from common.protocol.server_session import ServerSession
from common.protocol.terms import Terms
from common.protocol.work import Progress
from server.assistance import Assistance, Level, claim_assistance, dismiss_one_aide
from server.batch import Batch, Outcome, Part, computed_tokens, make_segment
from server.counters import Counters
from server.exports import Export, claim
from server.leases import Leases
from server.member import Listener, Member
from server.pass_cost import PassCost
from server.scheduler import share
from server.sequence import HeldSequence
from server.width import worthwhile_demands

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What protects the server from its clients."""

    max_sessions: int
    pass_tokens: int  # packed tokens of one pass
    lease_seconds: float = 0.0  # for which a session is kept whose stream is gone


class Sessions:
    def __init__(self, terms: Terms, bounds: Bounds, capacity: int):
        """`capacity` is the number of slots: positions and nodes of all sessions together."""
        self.counters = Counters()
        self.terms = terms
        self._bounds = bounds
        self._pool = SlotPool(capacity)
        self._pulse = Pulse()
        self._cost = PassCost()
        self._members: dict[str, Member] = {}
        self._by_listener: dict[Listener, Member] = {}
        self._leases = Leases(bounds.lease_seconds)
        self._pass = 0  # the number of the latest plan: the clock of fairness
        self._level = 0  # the number of the latest claim of a level
        self._draining = False

    def __len__(self) -> int:
        return len(self._members)

    @property
    def away(self) -> int:
        """Sessions that are kept for clients to come back to."""
        return len(self._leases)

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
        member = self._by_listener.get(listener)
        if member is not None:
            stale = member.session.tree.stale
            replies = member.session.receive(message, now)
            self.counters.stale_nodes += member.session.tree.stale - stale
            self._deliver(member, replies)
        elif isinstance(message, Open):
            self._open(listener, message, now)
        else:
            raise PeerError("the first frame of a stream must be Open")

    def hear_out(self, listener: Listener) -> None:
        """The client will say nothing more: its answer goes on to its end, and the stream ends with it."""
        member = self._by_listener.get(listener)
        if member is None:
            listener.end()
        else:
            member.silent = True
            self._dismiss_if_over(member)

    def leave(self, listener: Listener, now: float) -> None:
        """The stream is gone: its session, if it still has one, is kept for a while."""
        member = self._by_listener.get(listener)
        if member is not None:
            self._forget(member)
            if self._draining:
                member.release()
            else:
                self._leases.keep(member, now)

    def fail(self, listener: Listener, error: PeerError) -> None:
        """Ends one stream and its session, if it has one, with a sentence for the person."""
        self.counters.failures += 1
        member = self._by_listener.get(listener)
        if member is not None:
            self._drop(member)
        listener.put(Failed(error.code, str(error)))
        listener.end()

    # What the operator does.

    def drain(self) -> None:
        """Takes no new sessions or turns from here on; answers that are being made go on."""
        self._draining = True
        self._leases.end()
        for member in list(self._members.values()):
            self._dismiss_if_over(member)

    def fail_all(self, error: PeerError) -> None:
        for member in list(self._members.values()):
            self.fail(member.listener, error)

    # What passes do.

    def next_due(self) -> float:
        """The earliest time at which a session wants a pass or a lease ends; infinite while all must first hear from
        their clients."""
        return min([self._leases.next_end, *(member.session.due() for member in self._members.values())])

    def plan(self, now: float) -> Batch[Member] | None:
        """The next pass, or None where no session is due. A session that cannot be planned fails alone."""
        self._leases.expire(now)
        due = [member for member in self._members.values() if member.session.due() <= now]
        self._make_room(due)
        due = [member for member in due if self._is_here(member)]
        budget = min(self._bounds.pass_tokens, self._pool.free)
        shares = share(worthwhile_demands(due, budget, self._cost.estimate), budget)
        self._pass += 1
        parts = [self._part(member, tokens) for member, tokens in zip(due, shares, strict=True) if tokens]
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
        for part, outcome in zip(batch.parts, outcomes, strict=True):
            try:
                self._complete(part, outcome, now)
            # One session's fault, whatever it is, must not reach the others.
            except Exception as error:
                _log.error("a session failed after its pass: %s: %s", type(error).__name__, error)
                self._fail_internally(part.owner)

    # What the server drafts itself.

    def claim_assistance(self) -> Assistance[Member] | None:
        """A level that is to be drafted here, if any; its result must be handed to `assist` before the next claim."""
        asking = [member for member in self._members.values() if member.session.asks_for_assistance]
        self._pulse.rivals = max(1, len(asking))
        self._level += 1
        asked = claim_assistance(asking, self._level)
        self._pulse.is_drafting = asked is not None
        if asked is not None and asked.aide is None:
            dismiss_one_aide(self._members.values())
        return asked

    def assist(self, asked: Assistance[Member], level: Level | None, seconds: float) -> None:
        """Takes a drafted level, or None where it could not be drafted: that session goes on without."""
        member = asked.owner
        self._pulse.is_drafting = False
        if not self._is_here(member):
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
        try:
            member.session.assist(asked.epoch, asked.view, level.proposals)
        # One session's fault, whatever it is, must not reach the others.
        except Exception as error:
            _log.error("a session failed after a level: %s: %s", type(error).__name__, error)
            self._fail_internally(member)

    # What draft state goes down. It is computed after `plan` and before its pass, in the same thread.

    def claim_state(self) -> list[Export[Member]]:
        """A share of the draft state that clients lack; each part of it must be handed to `send_state`."""
        return claim(self._members.values())

    def send_state(self, exports: Sequence[Export[Member]], payloads: Sequence[bytes | None], now: float) -> None:
        """Takes what was encoded for each export; None where it could not be made. That session goes on without."""
        for export, payload in zip(exports, payloads, strict=True):
            if not self._is_here(export.owner):
                continue
            if payload is None:
                export.owner.wanted = None
                self._deliver(export.owner, export.owner.session.forgo_state())
                continue
            frame = export.owner.session.state_frame(export.span, payload, now)
            if frame is not None:
                self.counters.state_sent(frame.kind, len(payload))
                self._deliver(export.owner, [frame])

    # Details.

    def _open(self, listener: Listener, opened: Open, now: float) -> None:
        if self._draining:
            raise PeerError("the server is going away; try another or come back later", FailureCode.DRAINING)
        member = self._members.get(opened.session)
        if member is not None:
            self._reopen(member, listener, opened, now)
        elif (member := self._leases.take(opened.session)) is not None:
            self._readmit(member, listener, opened, now)
        else:
            member = self._admit(listener, opened, now)
        self._by_listener[listener] = member
        self._deliver(member, member.session.greeting)

    def _readmit(self, member: Member, listener: Listener, opened: Open, now: float) -> None:
        try:
            self._reopen(member, listener, opened, now)
        except PeerError:
            member.release()
            raise
        self._members[opened.session] = member

    def _reopen(self, member: Member, listener: Listener, opened: Open, now: float) -> None:
        """Joins a session to a newer stream. Raises PeerError, and changes nothing, where it cannot go on there."""
        tree = member.session.tree
        member.session.reopen(opened, now)
        if opened.state != member.wanted or member.session.tree is not tree:
            # Another draft is wanted, or in a tree that was built again ids mean other nodes than the aide knows.
            member.wanted, member.aide = opened.state, None
        older, member.listener, member.silent = member.listener, listener, False
        self._by_listener.pop(older, None)
        older.end()

    def _admit(self, listener: Listener, opened: Open, now: float) -> Member:
        while len(self._members) + len(self._leases) >= self._bounds.max_sessions and self._leases.drop_oldest():
            pass
        if len(self._members) >= self._bounds.max_sessions:
            raise PeerError("the server has no room for another session; try again later", FailureCode.OVERLOADED)
        session = ServerSession(opened, self.terms, now, self._pulse)
        # Those that have finished can be parked.
        running = [member.session for member in self._members.values() if member.is_running]
        promised = sum(other.tree.frontier for other in running)
        if promised + len(opened.tokens) > self._pool.capacity:
            raise PeerError(
                f"the server's cache has no room for a prompt of {len(opened.tokens)} tokens; "
                "try again later or shorten it",
                FailureCode.OVERLOADED,
            )
        self.counters.sessions += 1
        member = Member(session, HeldSequence(self._pool), listener, self._pass, opened.state)
        self._members[opened.session] = member
        return member

    def _make_room(self, due: Sequence[Member]) -> None:
        """Drops absent sessions and parks finished ones for what the due ones ask; where still nobody could move on,
        fails one."""
        wanted = min(self._bounds.pass_tokens, sum(member.demand.tokens for member in due))
        while self._pool.free < wanted and self._leases.drop_oldest():
            pass
        holders = [member for member in self._members.values() if len(member.sequence)]
        for member in sorted(holders, key=lambda member: member.served):
            if self._pool.free >= wanted:
                return
            if not member.is_running:
                member.session.park()
                member.sequence.release()
                member.aide = None
        if not self._pool.free:
            # The one who came last has lost least.
            error = PeerError("the server's cache is full; try again later", FailureCode.OVERLOADED)
            self.fail(holders[-1].listener, error)

    def _part(self, member: Member, tokens: int) -> Part[Member] | None:
        member.served = self._pass
        slots: list[int] = []
        try:
            work = member.session.plan(tokens)
            slots = self._pool.take(len(work))
            # Its root is no repeat: a turn that begins where the last one ended needs the logits there again.
            below = work.chain[:-1] if work.reaches_root else work.chain
            self.counters.recomputed_tokens += member.sequence.count_repeats(below)
            return Part(member, work, slots, make_segment(work, member.sequence, slots))
        # One session's fault, whatever it is, must not reach the others.
        except Exception as error:
            _log.error("a session failed before its pass: %s: %s", type(error).__name__, error)
            self._pool.give(slots)
            self._fail_internally(member)
            return None

    def _complete(self, part: Part[Member], outcome: Outcome, now: float) -> None:
        member = part.owner
        member.in_pass = False
        kept: set[int] = set()
        try:
            if not self._is_here(member):
                return
            if isinstance(outcome, PeerError):
                self.fail(member.listener, outcome)
                return
            progress = member.session.complete(part.work, outcome, now)
            commits = [reply for reply in progress.replies if isinstance(reply, Commit)]
            committed = [token for commit in commits for token in commit.tokens]
            self.counters.committed_tokens += len(committed)
            kept = self._keep(part, progress, committed)
        finally:
            self._pool.give(slot for slot in part.slots if slot not in kept)
        self._deliver(member, progress.replies)

    def _keep(self, part: Part[Member], progress: Progress, committed: Sequence[int]) -> set[int]:
        if not progress.chain_kept:
            return set()
        chain = len(part.work.chain)
        slots = [*part.slots[:chain], *(part.slots[chain + index] for index in progress.nodes_kept)]
        part.owner.sequence.keep(slots, computed_tokens(part, committed))
        return set(slots)

    def _deliver(self, member: Member, replies: Sequence[FromServer]) -> None:
        member.sequence.cut(member.session.processed)
        for reply in replies:
            member.listener.put(reply)
        if member.listener.ended:
            # It does not read. What waited was dropped, so the answer cannot go on.
            self.counters.failures += 1
            self._drop(member)
        else:
            self._dismiss_if_over(member)

    def _dismiss_if_over(self, member: Member) -> None:
        """Ends the stream of a session from which nothing can come any more."""
        if not member.is_running:
            if self._draining or member.silent:
                self._drop(member)
                member.listener.end()
        elif member.silent and member.session.waits_for_its_client:
            self.fail(
                member.listener,
                PeerError("the answer cannot go on without acknowledgements, but the client has closed its side"),
            )

    def _fail_internally(self, member: Member) -> None:
        if self._is_here(member):
            error = PeerError("the server could not compute this answer; try again", FailureCode.INTERNAL)
            self.fail(member.listener, error)

    def _is_here(self, member: Member) -> bool:
        return self._members.get(member.session.id) is member

    def _drop(self, member: Member) -> None:
        self._forget(member)
        member.release()

    def _forget(self, member: Member) -> None:
        del self._members[member.session.id]
        del self._by_listener[member.listener]
