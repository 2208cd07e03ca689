"""The session registry: connected sessions by key and by stream, sessions on lease, and how they come and go.

No asyncio, grpc, torch or clock: time is an argument. It may not know passes or which messages are sent.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from common.protocol.checks import check_open
from common.protocol.messages import Extend, Open
from common.protocol.pass_timings import PassTimings
from common.protocol.prefix import common_prefix
from common.protocol.scheduled_tokens import Replies
from common.protocol.server_session import ServerSession
from common.protocol.terms import Terms
from server.refusal import AdmissionRefusedError, RefusalReason
from server.sessions.accounting import Accounting
from server.sessions.admission import Admission, ServingLimits
from server.sessions.entry import MessageSink, SessionEntry, SessionKey
from server.sessions.leases import Leases
from server.sessions.lost_answers import REMEMBERED_S, LostAnswers
from server.sessions.quotas import Quotas
from server.sessions.shared_prefixes import SharedPrefixes


class SessionRegistry:
    def __init__(
        self,
        terms: Terms,
        limits: ServingLimits,
        capacity: int,
        prefixes: SharedPrefixes,
        quotas: Quotas,
        accounting: Accounting,
        peers: "list[SessionRegistry] | None" = None,
    ):
        """`capacity` is the number of K/V slots. `peers` are the registries of the other targets of this server, with
        which the limits of sessions are shared; this one joins them."""
        self.pass_timings = PassTimings()
        self.is_draining = False  # then no Open is taken
        self.leases = Leases(limits.lease_seconds, self._lease_ended)
        self.lost_answers = LostAnswers(limits.max_sessions, limits.lease_seconds + REMEMBERED_S)
        self._terms = terms
        self._limits = limits
        self._prefixes = prefixes
        self._quotas = quotas
        self._accounting = accounting
        self._admission = Admission(limits, terms.context, capacity, quotas, accounting.retry_after)
        self._peers = [] if peers is None else peers
        self._peers.append(self)
        self._entries: dict[SessionKey, SessionEntry] = {}
        self._by_sink: dict[MessageSink, SessionEntry] = {}

    @property
    def entries(self) -> Collection[SessionEntry]:
        """Sessions with a stream."""
        return self._entries.values()

    def entry_of(self, sink: MessageSink) -> SessionEntry | None:
        return self._by_sink.get(sink)

    def is_connected(self, entry: SessionEntry) -> bool:
        return self._entries.get(entry.key) is entry

    def holds(self, entry: SessionEntry) -> bool:
        """Whether it is connected or on lease, so that the result of a pass is still of use."""
        return self.is_connected(entry) or self.leases.holds(entry)

    @property
    def owed_a_pass(self) -> list[SessionEntry]:
        """Sessions on lease whose streams broke before a pass computed anything for their requests. They take part in
        one pass; otherwise a link that breaks faster than passes end would never bring a token."""
        return [entry for entry in self.leases.entries if entry.awaits_first_pass]

    # Sessions that come.

    def is_to_prepare(self, sink: MessageSink, message: Open | Extend, now: float) -> bool:
        """Whether the costly work that a request with a constraint needs before it is received is of use now. Raises
        PeerError where the request cannot be served now, whatever its constraint is."""
        entry = self._by_sink.get(sink)
        is_repeat = entry is not None and isinstance(message, Extend) and message.turn <= entry.session.turn
        breaks_protocol = (entry is None) != isinstance(message, Open)
        if sink.ended or is_repeat or breaks_protocol:
            return False
        try:
            self._check_unconstrained(sink, message, now)
        except AdmissionRefusedError as error:
            session = message.session if isinstance(message, Open) else self._by_sink[sink].session.id
            self._accounting.refused(session, sink.client, error)
            raise
        return True

    @contextmanager
    def preparing(self, sink: MessageSink, message: Open | Extend, now: float) -> Iterator[bool]:
        """Encloses that work and receiving the request, for one request of a client at a time.

        Yields whether the work is of use, and raises PeerError before it, as `is_to_prepare` does. A request that fails
        within the context is charged all the same, so that a quota bounds the work; an answer that goes on is none.
        Meanwhile the request's session, if it has a stream, is not evicted to admit another.
        """
        if not self.is_to_prepare(sink, message, now):
            yield False
            return
        is_request = self._is_request(sink.client, message, now)
        entry = self._held((sink.client, message.session)) if isinstance(message, Open) else self._by_sink[sink]
        if entry is not None:
            entry.in_preparation = True
        has_failed = True
        try:
            yield True
            # Another stream may have taken its session over, and then nothing was received.
            has_failed = sink.ended
        finally:
            if entry is not None:
                entry.in_preparation = False
            if has_failed and is_request:
                self._quotas.requested(sink.client, now)

    def _check_not_draining(self) -> None:
        if self.is_draining:
            raise AdmissionRefusedError(
                RefusalReason.DRAINING, "the server is draining; try another or come back later"
            )

    def _check_unconstrained(self, sink: MessageSink, message: Open | Extend, now: float) -> None:
        """Raises PeerError as receiving a request does, but for its constraint. No session comes or goes."""
        entry = self._by_sink.get(sink)
        settings = replace(message.settings, constraint=None)
        if isinstance(message, Open):
            self._check_not_draining()
            check_open(replace(message, settings=settings), self._terms)
            entry = self._held((sink.client, message.session))
            if entry is not None and entry.continues(message):
                return
            prompt = message.tokens
        else:
            assert entry is not None
            entry.last_active_s = now
            prompt = entry.session.prompt_of(replace(message, settings=settings))
        running, is_request = self._running(besides=entry), self._is_request(sink.client, message, now)
        with self._admission.admitting(
            sink.client, prompt, settings, running, now, is_request=is_request, begins=False
        ) as evicted:
            if entry is None or not self.is_connected(entry):
                self._session_to_evict(sink.client, evicted, now)

    def _held(self, key: SessionKey) -> SessionEntry | None:
        return self._entries.get(key) or self.leases.find(key)

    def _is_request(self, client: str, message: Open | Extend, now: float) -> bool:
        """Whether it asks for an answer; otherwise it resumes one, of a session here or of one that was dropped."""
        if not isinstance(message, Open):
            return True
        key = client, message.session
        if (entry := self._held(key)) is not None:
            return not entry.continues(message)
        return not self.lost_answers.is_resumed(key, message, now)

    def open(self, sink: MessageSink, opened: Open, last_pass: int, now: float) -> tuple[SessionEntry, Replies]:
        """A session for this stream, known or new, and the replies to its Open; a new one counts as served by the pass
        of that number.

        Raises PeerError for an invalid Open, and AdmissionRefusedError where it cannot be served now.
        """
        self._check_not_draining()
        key = sink.client, opened.session
        entry, is_new = self._entries.get(key), False
        if entry is not None:
            entry.heard(now)
            with self._admitting_reopened(entry, opened, now) as evicted:
                self._evict_all(evicted, now)
            replies = self._reopen(entry, sink, opened, now)
        elif (entry := self.leases.take(key)) is not None:
            entry.heard(now, was_away=True)
            replies = self._resume(entry, sink, opened, now)
        else:
            session = ServerSession(opened, self._terms, now, self.pass_timings)
            replies = session.opening_replies()
            lost = self.lost_answers
            is_request = key not in lost.keys or not lost.is_resumed(key, opened, now)
            with self._admission.admitting(
                sink.client, opened.tokens, opened.settings, self._running(), now, is_request=is_request
            ) as evicted:
                self._free_session(sink.client, evicted, now)
            if not is_request:
                lost.forget(key)
            sequence = self._prefixes.new_sequence(key)
            entry, is_new = SessionEntry(session, sequence, sink, last_pass, opened.state), True
            self._entries[key] = entry
            self._accounting.answer_began(entry, len(opened.tokens), now, is_request=is_request)
        # For others, who comes back again and again, and does nothing, has waited since the first time.
        if entry.session.tree.frontier != entry.frontier_when_opened:
            entry.last_active_s, entry.frontier_when_opened = now, entry.session.tree.frontier
        entry.opened_s, entry.awaits_first_pass = now, True
        self._by_sink[sink] = entry
        self._accounting.opened(entry, resumed=not is_new)
        return entry, replies

    def admit_next_turn(self, entry: SessionEntry, extend: Extend, now: float) -> None:
        """Evicts others for the session's next answer where needed. Raises PeerError for an invalid Extend, and
        AdmissionRefusedError where there is no room."""
        tokens = entry.session.prompt_of(extend)
        running = self._running(besides=entry)
        with self._admission.admitting(entry.client, tokens, extend.settings, running, now) as evicted:
            self._evict_all(evicted, now)

    def _resume(self, entry: SessionEntry, sink: MessageSink, opened: Open, now: float) -> Replies:
        try:
            with self._admitting_reopened(entry, opened, now) as evicted:
                self._free_session(sink.client, evicted, now)
            replies = self._reopen(entry, sink, opened, now)
        except AdmissionRefusedError:
            self.leases.add(entry, now)
            raise
        except Exception:
            entry.release()
            raise
        self._entries[entry.key] = entry
        return replies

    @contextmanager
    def _admitting_reopened(self, entry: SessionEntry, opened: Open, now: float) -> Iterator[list[SessionEntry]]:
        """The sessions to evict where an Open goes on with the answer of this session, or begins another one.

        Raises PeerError for an invalid Open, and AdmissionRefusedError where there is no room for the answer.
        """
        check_open(opened, self._terms)
        running = self._running(besides=entry)
        if not entry.continues(opened):
            with self._admission.admitting(entry.client, opened.tokens, opened.settings, running, now) as evicted:
                yield evicted
            return
        if not entry.session.resumes(opened):
            yield self._admission.evicted_for_return(running, now, len(opened.tokens), entry.session.limit)
        elif entry.is_running and not self.is_connected(entry):
            yield self._admission.evicted_for_return(running, now)
        else:
            yield []

    def _reopen(self, entry: SessionEntry, sink: MessageSink, opened: Open, now: float) -> Replies:
        """Joins a session to a newer stream; returns the replies to its Open.

        Raises PeerError, and changes nothing, where the session cannot go on there.
        """
        known = common_prefix(entry.session.tree.tokens, opened.tokens)
        resumes, continues = entry.session.resumes(opened), entry.continues(opened)
        replies = entry.session.reopen(opened, now)
        if opened.state != entry.state_request or not resumes:
            # The client has another draft model, or in the new tree ids mean other nodes than the drafter knows.
            entry.state_request, entry.drafter = opened.state, None
        older, entry.sink, entry.half_closed = entry.sink, sink, False
        self._by_sink.pop(older, None)
        older.end()
        if not resumes:
            if not continues:
                self._accounting.replaced(entry)
            self._accounting.answer_began(entry, len(opened.tokens) - known, now, is_request=not continues)
        return replies

    def _free_session(self, client: str, leaving: Collection[SessionEntry], now: float) -> None:
        """Evicts those that are `leaving`, and makes room for one more session of that client.

        Raises AdmissionRefusedError where there is none, and evicts nobody.
        """
        entry = self._session_to_evict(client, leaving, now)
        self._evict_all(leaving, now)
        if entry is not None:
            next(registry for registry in self._peers if registry.is_connected(entry))._make_way(entry, now)
        while self._held_everywhere >= self._limits.max_sessions and self._drop_a_lease(client):
            pass

    def _drop_a_lease(self, coming: str) -> bool:
        """Ends the oldest lease of the client that has most of them, the session that is `coming` among its own, so
        that nobody ends those of all others; False where there is none."""
        of_clients = Counter(entry.client for registry in self._peers for entry in registry.leases.entries)
        if coming in of_clients:
            of_clients[coming] += 1
        most = max(of_clients.values(), default=0)
        oldest = [
            (end, registry.leases, entry)
            for registry in self._peers
            for end, entry in registry.leases.by_end
            if of_clients[entry.client] == most
        ]
        if oldest:
            _, leases, entry = min(oldest, key=lambda each: each[0])
            leases.drop(entry)
        return bool(oldest)

    def _session_to_evict(self, client: str, leaving: Collection[SessionEntry], now: float) -> SessionEntry | None:
        """As admission tells it, of the sessions of all targets."""
        everywhere = [entry for registry in self._peers for entry in registry.entries if entry not in leaving]
        return self._admission.session_to_evict(client, everywhere, now)

    @property
    def _held_everywhere(self) -> int:
        """Sessions of this server, those on lease included."""
        return sum(len(registry.entries) + len(registry.leases) for registry in self._peers)

    def _make_way(self, entry: SessionEntry, now: float) -> None:
        """A running session goes on lease for another one, and one without an answer ends."""
        if entry.is_running:
            self._evict(entry, now)
            return
        self._accounting.left(entry)
        self.drop(entry)
        entry.sink.end()

    def _running(self, besides: SessionEntry | None = None) -> list[SessionEntry]:
        return [each for each in self.entries if each.is_running and each is not besides]

    def _evict_all(self, waiting: Iterable[SessionEntry], now: float) -> None:
        for entry in waiting:
            self._evict(entry, now)

    # Sessions that go.

    def _lease_ended(self, entry: SessionEntry) -> None:
        self.lost_answers.add(entry)
        self._accounting.forgotten(entry)

    def put_on_lease(self, entry: SessionEntry, now: float) -> None:
        """Its stream is gone; its client may resume it."""
        self._remove(entry)
        if not self.leases.seconds:
            self.lost_answers.add(entry)
        self.leases.add(entry, now)

    def disconnect(self, entry: SessionEntry, now: float) -> None:
        """Its stream is gone or of no more use; its session goes on lease."""
        self._accounting.left(entry, self.leases.seconds)
        self.put_on_lease(entry, now)

    def due(self, entry: SessionEntry) -> float:
        """When to act on it, in seconds: when it wants a pass, or when the wait for its client has lasted too long.
        Infinite where its client must act first."""
        is_waiting = entry.is_running and entry.session.waits_for_its_client
        return self._waits_until(entry) if is_waiting else entry.session.due()

    def evict_if_abandoned(self, entry: SessionEntry, now: float) -> None:
        """Evicts a session whose answer has waited for its client for as long as a lease lasts, even if its stream
        stands."""
        if self._waits_until(entry) <= now and entry.is_running and entry.session.waits_for_its_client:
            self._evict(entry, now)

    def _evict(self, entry: SessionEntry, now: float) -> None:
        self.disconnect(entry, now)
        entry.sink.end()

    def _waits_until(self, entry: SessionEntry) -> float:
        return max(entry.last_active_s, entry.opened_s) + (self._limits.lease_seconds or math.inf)

    def drop(self, entry: SessionEntry) -> None:
        self._remove(entry)
        entry.release()

    def _remove(self, entry: SessionEntry) -> None:
        del self._entries[entry.key]
        del self._by_sink[entry.sink]
