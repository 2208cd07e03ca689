"""Sessions whose stream is gone, kept for their clients to come back to. No clock: times in seconds are arguments.

What is kept costs nothing that somebody present wants: the server drops it when it needs the room. May know what a
member holds, and neither passes nor streams.
"""

import math

from server.member import Member


class Leases:
    def __init__(self, seconds: float):
        self._seconds = seconds
        self._away: dict[str, Member] = {}  # the one that left first is first
        self._ends: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._away)

    @property
    def next_end(self) -> float:
        return next(iter(self._ends.values()), math.inf)

    def keep(self, member: Member, now: float) -> None:
        """Its client may come back for a while."""
        if self._seconds <= 0:
            member.release()
            return
        self._away[member.session.id] = member
        self._ends[member.session.id] = now + self._seconds

    def take(self, session: str) -> Member | None:
        """The client has come back; None where nothing of it is left."""
        self._ends.pop(session, None)
        return self._away.pop(session, None)

    def drop_oldest(self) -> bool:
        """Makes room; False where there is none to be made."""
        oldest = next(iter(self._away), None)
        member = None if oldest is None else self.take(oldest)
        if member is None:
            return False
        member.release()
        return True

    def expire(self, now: float) -> None:
        while self.next_end <= now:
            self.drop_oldest()

    def end(self) -> None:
        while self.drop_oldest():
            pass
