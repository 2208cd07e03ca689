"""Who is here and who is away: the sessions by their names and by their streams, and how they come and go.

No asyncio, grpc, torch or clock: time is an argument. It may not know passes or what is sent to whom.
"""

import math
from collections.abc import Collection, Iterable

from common.models.slots import SlotPool
from common.protocol.checks import check_open
from common.protocol.messages import Extend, Open
from common.protocol.pass_timings import PassTimings
from common.protocol.prefix import common_prefix
from common.protocol.scheduled_tokens import Replies
from common.protocol.server_session import ServerSession
from common.protocol.terms import Terms
from server.passes.sequence import HeldSequence
from server.sessions.accounting import Accounting
from server.sessions.admission import Admission, ServingLimits
from server.sessions.entry import Listener, SessionEntry, SessionKey
from server.sessions.leases import Leases
from server.sessions.quotas import Quotas
from server.sessions.refusal import RefusalError


class SessionRegistry:
    def __init__(self, terms: Terms, limits: ServingLimits, pool: SlotPool, quotas: Quotas, accounting: Accounting):
        self.pass_timings = PassTimings()
        self.leases = Leases(limits.lease_seconds, accounting.forgotten)
        self._terms = terms
        self._limits = limits
        self._pool = pool
        self._accounting = accounting
        self._admission = Admission(limits, terms.context, pool.capacity, quotas, accounting.retry_after)
        self._entries: dict[SessionKey, SessionEntry] = {}
        self._by_listener: dict[Listener, SessionEntry] = {}

    @property
    def entries(self) -> Collection[SessionEntry]:
        """Those whose streams stand."""
        return self._entries.values()

    def entry_of(self, listener: Listener) -> SessionEntry | None:
        return self._by_listener.get(listener)

    def is_connected(self, entry: SessionEntry) -> bool:
        return self._entries.get(entry.key) is entry

    def holds(self, entry: SessionEntry) -> bool:
        """Whether it is here or on lease, so that what a pass computed for it is of use."""
        return self.is_connected(entry) or self.leases.holds(entry)

    @property
    def owed_a_pass(self) -> list[SessionEntry]:
        """Those away whose streams broke before any pass could work on what they brought. They are owed one, or a link
        that never stands for as long as others' passes take would bring nobody a token."""
        return [entry for entry in self.leases.entries if entry.awaits_first_pass]

    # Who comes.

    def open(self, listener: Listener, opened: Open, served: int, now: float) -> tuple[SessionEntry, Replies]:
        """A session for this stream, known or new, and the replies to its Open; a new one counts as served by the pass
        of that number.

        Raises PeerError for what cannot be, and TurnedAwayError where it cannot be now.
        """
        key = listener.client, opened.session
        entry, is_new = self._entries.get(key), False
        if entry is not None:
            self._check_reopening(entry, listener, opened, now)
            replies = self._reopen(entry, listener, opened, now)
        elif (entry := self.leases.take(key)) is not None:
            replies = self._resume(entry, listener, opened, now)
        else:
            session = ServerSession(opened, self._terms, now, self.pass_timings)
            replies = session.greet()
            running = self._running()
            evicted = self._admission.evicted_for_answer(listener.client, opened.tokens, opened.settings, running, now)
            self._evict_all(evicted, now)
            self._free_session(listener.client, now)
            entry, is_new = SessionEntry(session, HeldSequence(self._pool), listener, served, opened.state), True
            self._entries[key] = entry
            self._accounting.answer_began(entry, len(opened.tokens), now)
        entry.active, entry.awaits_first_pass = now, True
        self._by_listener[listener] = entry
        self._accounting.opened(entry, resumed=not is_new)
        return entry, replies

    def admit_next_turn(self, entry: SessionEntry, extend: Extend, now: float) -> None:
        """Raises TurnedAwayError where a next answer cannot be begun now."""
        tokens = (*entry.session.tree.tokens[: extend.keep], *extend.tokens)
        running = self._running(besides=entry)
        evicted = self._admission.evicted_for_answer(entry.client, tokens, extend.settings, running, now)
        self._evict_all(evicted, now)

    def _resume(self, entry: SessionEntry, listener: Listener, opened: Open, now: float) -> Replies:
        try:
            if entry.is_running:
                self._evict_all(self._admission.evicted_for_return(self._running(), now), now)
            self._check_reopening(entry, listener, opened, now)
            self._free_session(listener.client, now)  # last, for somebody may go for it
            replies = self._reopen(entry, listener, opened, now)
        except RefusalError:
            self.leases.add(entry, now)
            raise
        except Exception:
            entry.release()
            raise
        self._entries[entry.key] = entry
        return replies

    def _check_reopening(self, entry: SessionEntry, listener: Listener, opened: Open, now: float) -> None:
        """Raises PeerError for what cannot be, and TurnedAwayError where a newer stream begins another answer, for
        which there is no room."""
        check_open(opened, self._terms)
        if not entry.session.resumes(opened):
            running = self._running(besides=entry)
            evicted = self._admission.evicted_for_answer(listener.client, opened.tokens, opened.settings, running, now)
            self._evict_all(evicted, now)

    def _reopen(self, entry: SessionEntry, listener: Listener, opened: Open, now: float) -> Replies:
        """Joins a session to a newer stream; returns the replies to its Open.

        Raises PeerError, and changes nothing, where the session cannot go on there.
        """
        known, resumes = common_prefix(entry.session.tree.tokens, opened.tokens), entry.session.resumes(opened)
        replies = entry.session.reopen(opened, now)
        if opened.state != entry.state_request or not resumes:
            # Another draft is wanted, or in a tree that was built again ids mean other nodes than the aide knows.
            entry.state_request, entry.drafter = opened.state, None
        older, entry.listener, entry.half_closed = entry.listener, listener, False
        self._by_listener.pop(older, None)
        older.end()
        if not resumes:
            self._accounting.answer_began(entry, len(opened.tokens) - known, now)
        return replies

    def _free_session(self, client: str, now: float) -> None:
        """For one more session of that client. Raises TurnedAwayError where there is none."""
        entry = self._admission.session_to_evict(client, self.entries, now)
        if entry is not None and entry.is_running:
            self._evict(entry, now)
        elif entry is not None:
            self._accounting.left(entry)
            self.drop(entry)
            entry.listener.end()
        while len(self._entries) + len(self.leases) >= self._limits.max_sessions and self.leases.drop_oldest():
            pass

    def _running(self, besides: SessionEntry | None = None) -> list[SessionEntry]:
        return [each for each in self.entries if each.is_running and each is not besides]

    def _evict_all(self, waiting: Iterable[SessionEntry], now: float) -> None:
        for entry in waiting:
            self._evict(entry, now)

    # Who goes.

    def put_on_lease(self, entry: SessionEntry, now: float) -> None:
        """It has no stream any more; its client may come back for it."""
        self._remove(entry)
        self.leases.add(entry, now)

    def disconnect(self, entry: SessionEntry, now: float) -> None:
        """Its stream is gone or of no more use: it is kept for as long as anybody is."""
        self._accounting.left(entry, self.leases.seconds)
        self.put_on_lease(entry, now)

    def due(self, entry: SessionEntry) -> float:
        """When something is to be done about it: a pass, or the end of the patience with a client for which its answer
        waits. Infinite where that is up to its client."""
        is_waiting = entry.is_running and entry.session.waits_for_its_client
        return self._waits_until(entry) if is_waiting else entry.session.due()

    def is_due(self, entry: SessionEntry, now: float) -> bool:
        """Whether it takes part in a pass now. A client from which an answer has waited for as long as a lease lasts is
        as good as gone, whatever its stream does, and is sent away."""
        if self._waits_until(entry) <= now and entry.is_running and entry.session.waits_for_its_client:
            self._evict(entry, now)
            return False
        return entry.session.due() <= now

    def _evict(self, entry: SessionEntry, now: float) -> None:
        self.disconnect(entry, now)
        entry.listener.end()

    def _waits_until(self, entry: SessionEntry) -> float:
        return entry.active + (self._limits.lease_seconds or math.inf)

    def drop(self, entry: SessionEntry) -> None:
        self._remove(entry)
        entry.release()

    def _remove(self, entry: SessionEntry) -> None:
        del self._entries[entry.key]
        del self._by_listener[entry.listener]
