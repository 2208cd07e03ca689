"""Who is here and who is away: the sessions by their names and by their streams, and how they come and go.

No asyncio, grpc, torch or clock: time is an argument. It may not know passes or what is sent to whom.
"""

import math
from collections.abc import Collection, Iterable, Sequence

from common.models.slots import SlotPool
from common.protocol.checks import check_open
from common.protocol.messages import Extend, Open, Settings
from common.protocol.pass_timings import Pulse
from common.protocol.prefix import common_prefix
from common.protocol.server_session import ServerSession
from common.protocol.terms import Terms
from server.passes.sequence import HeldSequence
from server.sessions.accounting import Books
from server.sessions.admission import Bounds, Room
from server.sessions.entry import Listener, Member, SessionKey
from server.sessions.leases import Leases
from server.sessions.quotas import Quotas
from server.sessions.refusal import TurnedAwayError


class Roster:
    def __init__(self, terms: Terms, bounds: Bounds, pool: SlotPool, quotas: Quotas, books: Books):
        self.pulse = Pulse()
        self.leases = Leases(bounds.lease_seconds, books.forgotten)
        self._terms = terms
        self._bounds = bounds
        self._pool = pool
        self._books = books
        self._room = Room(bounds, pool.capacity, quotas, books.turnover)
        self._members: dict[SessionKey, Member] = {}
        self._by_listener: dict[Listener, Member] = {}

    @property
    def members(self) -> Collection[Member]:
        """Those whose streams stand."""
        return self._members.values()

    def of(self, listener: Listener) -> Member | None:
        return self._by_listener.get(listener)

    def has(self, member: Member) -> bool:
        return self._members.get(member.key) is member

    def keeps(self, member: Member) -> bool:
        """Whether it is here or on lease, so that what a pass computed for it is of use."""
        return self.has(member) or self.leases.has(member)

    @property
    def owed(self) -> list[Member]:
        """Those away whose streams broke before any pass could work on what they brought. They are owed one, or a link
        that never stands for as long as others' passes take would bring nobody a token."""
        return [member for member in self.leases.members if member.unserved]

    # Who comes.

    def open(self, listener: Listener, opened: Open, served: int, now: float) -> Member:
        """A session for this stream, known or new; a new one has been served last by the pass of that number.

        Raises PeerError for what cannot be, and TurnedAwayError where it cannot be now.
        """
        key = listener.client, opened.session
        member, is_new = self._members.get(key), False
        if member is not None:
            self._check_reopening(member, listener, opened, now)
            self._reopen(member, listener, opened, now)
        elif (member := self.leases.take(key)) is not None:
            self._readmit(member, listener, opened, now)
        else:
            member, is_new = self._admit(listener, opened, served, now), True
        member.active, member.unserved = now, True
        self._by_listener[listener] = member
        self._books.opened(member, resumed=not is_new)
        return member

    def check_turn(self, member: Member, extend: Extend, now: float) -> None:
        """Raises TurnedAwayError where a next answer cannot be begun now."""
        tokens = (*member.session.tree.tokens[: extend.keep], *extend.tokens)
        self._make_room_for(member.client, tokens, extend.settings, now, besides=member)

    def _readmit(self, member: Member, listener: Listener, opened: Open, now: float) -> None:
        try:
            if member.is_running:
                self._yield(self._room.who_yields_to_return(self._running(), now), now)
            self._check_reopening(member, listener, opened, now)
            self._make_place(listener.client, now)  # last, for somebody may go for it
            self._reopen(member, listener, opened, now)
        except TurnedAwayError:
            self.leases.keep(member, now)
            raise
        except Exception:
            member.release()
            raise
        self._members[member.key] = member

    def _check_reopening(self, member: Member, listener: Listener, opened: Open, now: float) -> None:
        """Raises PeerError for what cannot be, and TurnedAwayError where a newer stream begins another answer, for
        which there is no room."""
        check_open(opened, self._terms)
        if not member.session.resumes(opened):
            self._make_room_for(listener.client, opened.tokens, opened.settings, now, besides=member)

    def _reopen(self, member: Member, listener: Listener, opened: Open, now: float) -> None:
        """Joins a session to a newer stream. Raises PeerError, and changes nothing, where it cannot go on there."""
        known, resumes = common_prefix(member.session.tree.tokens, opened.tokens), member.session.resumes(opened)
        member.session.reopen(opened, now)
        if opened.state != member.wanted or not resumes:
            # Another draft is wanted, or in a tree that was built again ids mean other nodes than the aide knows.
            member.wanted, member.aide = opened.state, None
        older, member.listener, member.silent = member.listener, listener, False
        self._by_listener.pop(older, None)
        older.end()
        if not resumes:
            self._books.asked(member, len(opened.tokens) - known, now)

    def _admit(self, listener: Listener, opened: Open, served: int, now: float) -> Member:
        session = ServerSession(opened, self._terms, now, self.pulse)
        self._make_room_for(listener.client, opened.tokens, opened.settings, now)
        self._make_place(listener.client, now)
        member = Member(session, HeldSequence(self._pool), listener, served, opened.state)
        self._members[member.key] = member
        self._books.asked(member, len(opened.tokens), now)
        return member

    def _make_place(self, client: str, now: float) -> None:
        """For one more session of that client. Raises TurnedAwayError where there is none."""
        member = self._room.who_gives_way(client, self.members, now)
        if member is not None and member.is_running:
            self._send_away(member, now)
        elif member is not None:
            self._books.left(member)
            self.drop(member)
            member.listener.end()
        while len(self._members) + len(self.leases) >= self._bounds.max_sessions and self.leases.drop_oldest():
            pass

    def _make_room_for(
        self, client: str, prompt: Sequence[int], settings: Settings, now: float, besides: Member | None = None
    ) -> None:
        """For an answer to that prompt. Raises TurnedAwayError where there is none."""
        self._room.check_quota(client, now)
        limit = min(self._terms.context, len(prompt) + settings.max_new_tokens)
        # A client that was turned away may come back on another session: it is known by what it asks.
        who = hash((client, tuple(prompt[: self._terms.context])))
        self._yield(self._room.who_yields_to_answer(who, len(prompt), limit, self._running(besides), now), now)

    def _running(self, besides: Member | None = None) -> list[Member]:
        return [each for each in self.members if each.is_running and each is not besides]

    def _yield(self, waiting: Iterable[Member], now: float) -> None:
        for member in waiting:
            self._send_away(member, now)

    # Who goes.

    def put_away(self, member: Member, now: float) -> None:
        """It has no stream any more; its client may come back for it."""
        self._forget(member)
        self.leases.keep(member, now)

    def part_with(self, member: Member, now: float) -> None:
        """Its stream is gone or of no more use: it is kept for as long as anybody is."""
        self._books.left(member, self.leases.seconds)
        self.put_away(member, now)

    def due(self, member: Member) -> float:
        """When something is to be done about it: a pass, or the end of the patience with a client for which its answer
        waits. Infinite where that is up to its client."""
        is_waiting = member.is_running and member.session.waits_for_its_client
        return self._patience_end(member) if is_waiting else member.session.due()

    def is_due(self, member: Member, now: float) -> bool:
        """Whether it takes part in a pass now. A client from which an answer has waited for as long as a lease lasts is
        as good as gone, whatever its stream does, and is sent away."""
        if self._patience_end(member) <= now and member.is_running and member.session.waits_for_its_client:
            self._send_away(member, now)
            return False
        return member.session.due() <= now

    def _send_away(self, member: Member, now: float) -> None:
        self.part_with(member, now)
        member.listener.end()

    def _patience_end(self, member: Member) -> float:
        return member.active + (self._bounds.lease_seconds or math.inf)

    def drop(self, member: Member) -> None:
        self._forget(member)
        member.release()

    def _forget(self, member: Member) -> None:
        del self._members[member.key]
        del self._by_listener[member.listener]
