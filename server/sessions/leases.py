"""Sessions whose stream is gone, kept for their clients to come back to. No clock: times in seconds are arguments.

What is kept costs nothing that somebody present wants: the server drops it when it needs the room. May know what a
member holds, and neither passes nor streams.
"""

import math
from collections.abc import Callable

from server.sessions.entry import SessionEntry, SessionKey


def _ignore(_: SessionEntry) -> None:
    """For whom it does not matter who is dropped."""


class Leases:
    def __init__(self, seconds: float, dropped: Callable[[SessionEntry], None] = _ignore):
        """`dropped` hears of every session that nobody came back to."""
        self._seconds = seconds
        self._dropped = dropped
        self._away: dict[SessionKey, tuple[float, SessionEntry]] = {}  # and when the lease ends, the first of all first

    def __len__(self) -> int:
        return len(self._away)

    @property
    def seconds(self) -> float:
        """For which a session is kept; 0 where none is."""
        return self._seconds

    @property
    def entries(self) -> list[SessionEntry]:
        return [entry for _, entry in self._away.values()]

    @property
    def next_end(self) -> float:
        return next((end for end, _ in self._away.values()), math.inf)

    def add(self, entry: SessionEntry, now: float) -> None:
        """Its client may come back for a while."""
        if self._seconds > 0:
            self._away[entry.key] = now + self._seconds, entry
        else:
            entry.release()

    def take(self, key: SessionKey) -> SessionEntry | None:
        """The client has come back; None where nothing of it is left."""
        _, entry = self._away.pop(key, (0.0, None))
        return entry

    def holds(self, entry: SessionEntry) -> bool:
        _, kept = self._away.get(entry.key, (0.0, None))
        return kept is entry

    def drop(self, entry: SessionEntry) -> None:
        """Nobody can come back to it."""
        del self._away[entry.key]
        entry.release()
        self._dropped(entry)

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
