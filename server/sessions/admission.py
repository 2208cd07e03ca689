"""Admission control: which sessions are accepted when slots run out, and which idle ones are evicted. Pure: time is an
argument, in seconds.

An accepted answer is served to its end as fast as the others, unless it only waits for its client while others are
refused. A refusal comes at once and says when to try again. It may not know streams, passes or what an answer says.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from common.counted import counted
from common.protocol.messages import Settings
from server.passes.scheduler import max_decoding_sessions
from server.passes.sequence import counted_twice
from server.refusal import AdmissionRefusedError, RefusalReason
from server.sessions.entry import YIELDS_AFTER_S, SessionEntry
from server.sessions.quotas import Quotas
from server.sessions.retry_after import RetryAfterEstimator
from server.sessions.waiting_line import WaitingLine

_PREPARING_S = 10.0
"""How long a prompt keeps its age while its constraint waits for its turn and is compiled, which takes at most 2 s of a
processor."""

_RETURNING = 2
"""Answers that come back after a lost link are accepted up to this many times the usual limit."""


@dataclass(frozen=True, slots=True)
class ServingLimits:
    """The limits that protect the server from its clients."""

    max_sessions: int
    pass_tokens: int  # packed tokens of one pass
    lease_seconds: float = 0.0  # for which a session is kept whose stream is gone
    max_running: int | None = None  # answers at a time; None for as many as decode in every pass

    @property
    def running(self) -> int:
        return max_decoding_sessions(self.pass_tokens) if self.max_running is None else self.max_running


class Admission:
    def __init__(
        self, limits: ServingLimits, context: int, capacity: int, quotas: Quotas, retry_after: RetryAfterEstimator
    ):
        """`context` is the longest sequence, `capacity` the number of K/V slots of all sessions together."""
        self._limits = limits
        self._context = context
        self._capacity = capacity
        self._quotas = quotas
        self._retry_after = retry_after
        self._line = WaitingLine()

    def session_to_evict(self, client: str, entries: Collection[SessionEntry], now: float) -> SessionEntry | None:
        """The session to evict for one more session of that client, None where there is room.

        Raises AdmissionRefusedError where none can be evicted.
        """
        own = [entry for entry in entries if entry.client == client]
        held = len(own) + self._quotas.sessions_elsewhere(client)
        if held >= self._quotas.max_sessions(client):
            rivals, reason = own, RefusalReason.QUOTA_SESSIONS
            has, one = ("the one session", "it") if held == 1 else (f"all the {held} sessions", "one of them")
            sentence = f"'{client}' has {has} that it may have at a time; end {one}"
        elif len(entries) >= self._limits.max_sessions:
            rivals, reason = list(entries), RefusalReason.SESSIONS
            sentence = "the server has no room for another session; try again later"
        else:
            return None
        idle = longest_idle(rivals)
        if idle is None and reason is RefusalReason.SESSIONS:
            idle = next(iter(_waiting(rivals, now)), None)
        if idle is None:
            raise AdmissionRefusedError(reason, sentence, self._wait(len(entries), now))
        return idle

    @contextmanager
    def admitting(
        self,
        client: str,
        prompt: Sequence[int],
        settings: Settings,
        running: Collection[SessionEntry],
        now: float,
        *,
        is_request: bool = True,
        begins: bool = True,
    ) -> Iterator[list[SessionEntry]]:
        """The sessions to evict for an answer to that prompt, beside those that are `running`; most often none. Where
        it is refused within this context, for whatever else it needs, the prompt keeps its age; otherwise its wait is
        over if the answer `begins`, and it keeps its age for a while if it first has to be prepared.

        Raises AdmissionRefusedError where there is no room, and where the client's quota is used up: unless this is no
        new request, for a running answer is not cut for a quota.
        """
        if is_request:
            self._quotas.check(client, now)
        # A client that was refused may come back on another session: it is known by what it asks.
        who = hash((client, tuple(prompt[: self._context])))
        try:
            yield self._evicted_for_answer(who, client, prompt, settings, running, now)
        except AdmissionRefusedError as error:
            self._line.keep(who, error.retry_after, now)
            raise
        if begins:
            self._line.served(who)
        else:
            self._line.keep(who, _PREPARING_S, now)

    def _evicted_for_answer(
        self,
        who: Hashable,
        client: str,
        prompt: Sequence[int],
        settings: Settings,
        running: Collection[SessionEntry],
        now: float,
    ) -> list[SessionEntry]:
        need = self._promised(len(prompt), min(self._context, len(prompt) + settings.max_new_tokens))
        reserved = self._line.reserved(who, now, self._retry_after.answer_seconds, client)

        def lacks(running: Collection[SessionEntry]) -> RefusalReason | None:
            if len(running) >= self._limits.running:
                return RefusalReason.RUNNING
            is_alone = not running and not reserved
            fits = is_alone or self._promised_to(running) + need + reserved <= self._capacity
            return None if fits else RefusalReason.CACHE

        evicted, reason = _fewest_to_evict(running, lacks, now)
        if reason is RefusalReason.RUNNING:
            raise self._running_refusal(len(running), now)
        if reason is RefusalReason.CACHE:
            what = f"a prompt of {counted(len(prompt), 'token')}; try again later or shorten it"
            refusal = self._cache_refusal(what, len(running), now)
            # Others are not held up for a prompt that its own client's answers keep out.
            own = [each for each in running if each.client == client]
            is_own_doing = bool(own) and self._promised_to(own) + need > self._capacity
            self._line.refused(who, need, refusal.retry_after, now, holds_up=client if is_own_doing else None)
            raise refusal
        return evicted

    def evicted_for_return(
        self, running: Collection[SessionEntry], now: float, grown_to: int = 0, limit: int = 0
    ) -> list[SessionEntry]:
        """The same for an answer that comes back after a lost link. Such answers come back together and should not
        wait, so that more of them are accepted. `grown_to`: the tokens of one that brings text with it, which nothing
        was promised to, and `limit` those that it may have; 0 for others."""
        need = self._promised(grown_to, limit)

        def lacks(running: Collection[SessionEntry]) -> RefusalReason | None:
            if len(running) >= _RETURNING * self._limits.running:
                return RefusalReason.RUNNING
            fits = not (running and grown_to) or self._promised_to(running) + need <= self._capacity
            return None if fits else RefusalReason.CACHE

        evicted, reason = _fewest_to_evict(running, lacks, now)
        if reason is RefusalReason.RUNNING:
            raise self._running_refusal(len(running), now)
        if reason is RefusalReason.CACHE:
            what = f"an answer that has come to {counted(grown_to, 'token')}; try again later"
            raise self._cache_refusal(what, len(running), now)
        return evicted

    def _running_refusal(self, running: int, now: float) -> AdmissionRefusedError:
        sentence = f"the server is busy with {counted(running, 'answer')}; try again later"
        return AdmissionRefusedError(RefusalReason.RUNNING, sentence, self._wait(running, now))

    def _cache_refusal(self, what: str, running: int, now: float) -> AdmissionRefusedError:
        sentence = f"the server's cache has no room for {what}"
        return AdmissionRefusedError(RefusalReason.CACHE, sentence, self._wait(running, now))

    def _wait(self, running: int, now: float) -> float:
        return self._retry_after.retry_after_s(running, now)

    def _promised_to(self, running: Collection[SessionEntry]) -> float:
        """K/V slots that these answers will need together. A new prompt counts in full: what it might share may be gone
        before its first pass."""
        promised = sum(self._promised(each.session.tree.frontier, each.session.limit) for each in running)
        return promised - counted_twice(each.sequence for each in running)

    def _promised(self, frontier: int, limit: int) -> float:
        """K/V slots that a running answer will need. A finished session needs none, because it can be parked."""
        return min(limit, frontier + self._retry_after.answer_tokens)


def longest_idle(entries: Iterable[SessionEntry]) -> SessionEntry | None:
    """Of the sessions without a running answer or one in preparation, the one that has been idle longest."""
    idle = [entry for entry in entries if not (entry.is_running or entry.in_preparation)]
    return min(idle, key=lambda entry: entry.last_active_s, default=None)


def _waiting(entries: Iterable[SessionEntry], now: float) -> list[SessionEntry]:
    """The sessions whose answers only wait for their clients, the longest waiting first."""
    long_ago = [each for each in entries if each.is_running and now - each.last_active_s >= YIELDS_AFTER_S]
    return sorted((each for each in long_ago if each.session.waits_for_its_client), key=lambda each: each.last_active_s)


def _fewest_to_evict(
    running: Collection[SessionEntry], lacks: Callable[[Collection[SessionEntry]], RefusalReason | None], now: float
) -> tuple[list[SessionEntry], RefusalReason | None]:
    """The fewest sessions that wait for their clients and whose eviction makes room, the longest waiting first; or
    none, and what is lacking, where evicting all of them would not be enough."""
    reason = lacks(running)
    if reason is None:
        return [], None
    waiting = _waiting(running, now)
    for count in range(1, len(waiting) + 1):
        if lacks([each for each in running if each not in waiting[:count]]) is None:
            return waiting[:count], None
    return [], reason
