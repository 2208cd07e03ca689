"""Leases: sessions whose stream is gone stay for a while, so that their clients can resume. No clock: times in seconds
are arguments.

Leases never keep anything from connected sessions: the server drops some when it needs their slots. May know what
an entry holds, and neither passes nor streams.
"""

import math
from collections.abc import Callable

from server.sessions.entry import SessionEntry, SessionKey


def _ignore(_: SessionEntry) -> None:
    """The callback where nobody wants to know who is dropped."""


class Leases:
    def __init__(self, seconds: float, dropped: Callable[[SessionEntry], None] = _ignore):
        """`dropped` is called with every session that was not resumed."""
        self._seconds = seconds
        self._dropped = dropped
        self._away: dict[SessionKey, tuple[float, SessionEntry]] = {}  # with the end of its lease, ascending

    def __len__(self) -> int:
        return len(self._away)

    @property
    def seconds(self) -> float:
        """How long a session stays; 0 where none does."""
        return self._seconds

    @property
    def entries(self) -> list[SessionEntry]:
        return [entry for _, entry in self._away.values()]

    @property
    def by_end(self) -> list[tuple[float, SessionEntry]]:
        """Each with the end of its lease, ascending."""
        return list(self._away.values())

    @property
    def next_end(self) -> float:
        return next((end for end, _ in self._away.values()), math.inf)

    def add(self, entry: SessionEntry, now: float) -> None:
        """Its client may resume it for a while."""
        if self._seconds > 0:
            self._away[entry.key] = now + self._seconds, entry
        else:
            entry.release()

    def find(self, key: SessionKey) -> SessionEntry | None:
        """The session that a client may resume; None where its lease has ended."""
        return self._away.get(key, (0.0, None))[1]

    def take(self, key: SessionKey) -> SessionEntry | None:
        """The session that a client resumes; None where its lease has ended."""
        _, entry = self._away.pop(key, (0.0, None))
        return entry

    def holds(self, entry: SessionEntry) -> bool:
        _, kept = self._away.get(entry.key, (0.0, None))
        return kept is entry

    def drop(self, entry: SessionEntry) -> None:
        """Ends its lease."""
        del self._away[entry.key]
        entry.release()
        self._dropped(entry)

    def drop_oldest(self) -> bool:
        """Ends the oldest lease; False where there is none."""
        _, oldest = next(iter(self._away.values()), (0.0, None))
        if oldest is not None:
            self.drop(oldest)
        return oldest is not None

    def expire(self, now: float) -> None:
        while self.next_end <= now:
            self.drop_oldest()

    def end(self) -> None:
        """Ends all leases; there will be no more."""
        self._seconds = 0.0
        while self.drop_oldest():
            pass
