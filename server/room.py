"""Who gets in where not everybody fits, and who makes room. Pure: time is an argument, in seconds.

Whoever was let in is served to the end of the answer as fast as the others; the rest hear at once that there is no
room, and when there may be. It may not know streams, passes or what an answer is made of.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from common.protocol.server_session import ServerSession
from server.member import Member
from server.quotas import Quotas
from server.scheduler import most_decoding
from server.turned_away import Reason, TurnedAwayError
from server.turnover import Turnover

_RETURNING = 2
"""Times as many answers as otherwise are made while some that had begun come back."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What protects the server from its clients."""

    max_sessions: int
    pass_tokens: int  # packed tokens of one pass
    lease_seconds: float = 0.0  # for which a session is kept whose stream is gone
    max_running: int | None = None  # answers at a time; None for as many as decode in every pass

    @property
    def running(self) -> int:
        return most_decoding(self.pass_tokens) if self.max_running is None else self.max_running


class Room:
    def __init__(self, bounds: Bounds, capacity: int, quotas: Quotas, turnover: Turnover):
        """`capacity` is the number of slots of all sessions together."""
        self._bounds = bounds
        self._capacity = capacity
        self._quotas = quotas
        self._turnover = turnover

    def who_gives_way(self, client: str, members: Collection[Member], now: float) -> Member | None:
        """Whose place one more session of that client takes, None where there is one left.

        Raises TurnedAwayError where nobody can be asked to go.
        """
        own = [member for member in members if member.client == client]
        if len(own) >= self._quotas.max_sessions(client):
            rivals, reason = own, Reason.QUOTA_SESSIONS
            sentence = f"'{client}' has all the {len(own)} sessions that it may have at a time; end one of them"
        elif len(members) >= self._bounds.max_sessions:
            rivals, reason = list(members), Reason.SESSIONS
            sentence = "the server has no room for another session; try again later"
        else:
            return None
        idle = idlest(rivals)
        if idle is None:
            raise TurnedAwayError(reason, sentence, self._wait(len(members), now))
        return idle

    def check_answer(
        self, client: str, prompt: int, limit: int, running: Collection[ServerSession], now: float
    ) -> None:
        """Whether an answer may begin behind a prompt of so many tokens, up to a sequence of `limit`, beside those that
        are `running`. Raises TurnedAwayError where it may not."""
        self._quotas.check(client, now)
        if len(running) >= self._bounds.running:
            raise TurnedAwayError(
                Reason.RUNNING,
                f"the server is busy with {len(running)} answers; try again later",
                self._wait(len(running), now),
            )
        promised = sum(self._promised(session.tree.frontier, session.limit) for session in running)
        if running and promised + self._promised(prompt, limit) > self._capacity:
            raise TurnedAwayError(
                Reason.CACHE,
                f"the server's cache has no room for a prompt of {prompt} tokens; try again later or shorten it",
                self._wait(len(running), now),
            )

    def check_return(self, running: int, now: float) -> None:
        """Whether one more answer that had begun may go on beside so many: those who lost their link come back
        together, and nobody who waited for nothing else is to wait long. Raises TurnedAwayError where it may not."""
        if running >= _RETURNING * self._bounds.running:
            sentence = f"the server is busy with {running} answers; try again later"
            raise TurnedAwayError(Reason.RUNNING, sentence, self._wait(running, now))

    def _wait(self, running: int, now: float) -> float:
        return self._turnover.wait(running, now)

    def _promised(self, frontier: int, limit: int) -> float:
        """Slots: of those that have finished none, for they can be parked."""
        return min(limit, frontier + self._turnover.tokens)


def idlest(members: Iterable[Member]) -> Member | None:
    """Who loses least by making room: of those that have no question the one that has had none for longest."""
    idle = [member for member in members if not member.is_running]
    return min(idle, key=lambda member: member.active, default=None)
