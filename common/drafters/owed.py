"""Draft state that has come and that a drafter has not taken yet, because another drafts in its place."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from common.drafters.drafter import Drafter
from common.protocol.messages import State


@dataclass(slots=True)
class _Feed:
    """Frames of one kind that came without a gap, from position `start` to before `end`; a later feed has a higher
    number."""

    number: int
    start: int
    end: int = 0

    def replaces(self, number: int, state: State, kind: str) -> bool:
        """Whether a frame of the feed with this number is covered by this one, which is of `kind`."""
        is_earlier = state.kind == kind and number < self.number
        return is_earlier and self.start <= state.start and state.start + state.count <= self.end


class OwedStates:
    """Each of `drafters` gets the newest frames of every position once and in order, as long as no frame is sent
    again. A server that begins its feed anew, as one that has restarted does, takes the place of the feed before."""

    def __init__(self, drafters: Iterable[Drafter]):
        self._owed: dict[Drafter, list[tuple[int, State]]] = {drafter: [] for drafter in drafters}
        self._feeds: dict[str, _Feed] = {}  # the newest of each kind of state

    def add(self, states: Sequence[State]) -> None:
        for state in states:
            feed = self._feeds.get(state.kind)
            if feed is None or state.start != feed.end:
                feed = _Feed(0 if feed is None else feed.number + 1, state.start)
                self._feeds[state.kind] = feed
            feed.end = state.start + state.count
            for owed in self._owed.values():
                if feed.number:
                    owed[:] = [each for each in owed if not feed.replaces(*each, state.kind)]
                owed.append((feed.number, state))

    def forget(self, keep: int) -> None:
        """Positions from `keep` on were rewritten."""
        for feed in self._feeds.values():
            feed.end = min(feed.end, keep)
        for drafter, owed in self._owed.items():
            self._owed[drafter] = [
                (number, replace(state, count=min(state.count, keep - state.start)))
                for number, state in owed
                if state.start < keep
            ]

    def take(self, drafter: Drafter) -> Sequence[State]:
        """What has come since the last call for it; nothing for one that is not owed any."""
        owed = self._owed.get(drafter, [])
        if owed:
            self._owed[drafter] = []
        return [state for _, state in owed]
