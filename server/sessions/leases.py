"""Sessions whose stream is gone, kept for their clients to come back to. No clock: times in seconds are arguments.

What is kept costs nothing that somebody present wants: the server drops it when it needs the room. May know what a
member holds, and neither passes nor streams.
"""

import math
from collections.abc import Callable

from server.sessions.entry import Member, SessionKey


def _unheard(_: Member) -> None:
    """For whom it does not matter who is dropped."""


class Leases:
    def __init__(self, seconds: float, dropped: Callable[[Member], None] = _unheard):
        """`dropped` hears of every session that nobody came back to."""
        self._seconds = seconds
        self._dropped = dropped
        self._away: dict[SessionKey, tuple[float, Member]] = {}  # and when the lease ends, the first of all first

    def __len__(self) -> int:
        return len(self._away)

    @property
    def seconds(self) -> float:
        """For which a session is kept; 0 where none is."""
        return self._seconds

    @property
    def members(self) -> list[Member]:
        return [member for _, member in self._away.values()]

    @property
    def next_end(self) -> float:
        return next((end for end, _ in self._away.values()), math.inf)

    def keep(self, member: Member, now: float) -> None:
        """Its client may come back for a while."""
        if self._seconds > 0:
            self._away[member.key] = now + self._seconds, member
        else:
            member.release()

    def take(self, key: SessionKey) -> Member | None:
        """The client has come back; None where nothing of it is left."""
        _, member = self._away.pop(key, (0.0, None))
        return member

    def has(self, member: Member) -> bool:
        _, kept = self._away.get(member.key, (0.0, None))
        return kept is member

    def drop(self, member: Member) -> None:
        """Nobody can come back to it."""
        del self._away[member.key]
        member.release()
        self._dropped(member)

    def drop_oldest(self) -> bool:
        """Makes room; False where there is none to be made."""
        _, oldest = next(iter(self._away.values()), (0.0, None))
        if oldest is not None:
            self.drop(oldest)
        return oldest is not None

    def expire(self, now: float) -> None:
        while self.next_end <= now:
            self.drop_oldest()

    def end(self) -> None:
        """Nobody is kept any more."""
        self._seconds = 0.0
        while self.drop_oldest():
            pass
