"""Whether a level goes several tokens ahead, where a draft can (`block`): chosen again and again within an answer, from
what such levels take here and how many committed tokens came of each.

Pure: times are arguments, in seconds on any steady clock. May know node ids and times; it may not know drafters.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

_RECENT = 16  # levels of either way whose times count
_FIRST_TRIALS = 2  # levels of either way before they are compared
_BETWEEN_TRIALS = 64
"""Levels after which the way that is not taken is tried for one, because text and machine change."""

_MEMORY = 0.95
"""Decay: the weight that remains of earlier levels after each that has brought committed tokens."""


@dataclass(frozen=True, slots=True)
class _Level:
    """The ids of the nodes that a level added. `number` counts levels."""

    ids: range
    number: int
    ahead: bool


class GuessController:
    """Levels go ahead while that brings more tokens a second: one that does not brings one token, on its path."""

    def __init__(self) -> None:
        self.chosen = True
        self._seconds = {way: deque[float](maxlen=_RECENT) for way in (True, False)}
        self._levels = deque[_Level]()
        self._drafted = 0
        self._since_trial = 0
        self._tokens = self._brought = 0.0  # committed tokens, and the levels that went ahead and brought them
        self._last_brought = 0

    def drafted(self, ids: range, seconds: float) -> None:
        """A level was drafted as `chosen`, and added these nodes; chooses for the next one."""
        self._drafted += 1
        self._since_trial += 1
        self._seconds[self.chosen].append(seconds)
        if ids:
            self._levels.append(_Level(ids, self._drafted, self.chosen))
        self.chosen = self._choose()

    def committed(self, ids: Sequence[int]) -> None:
        """These nodes were committed, in the order of their positions."""
        for id_ in ids:
            level = next((each for each in self._levels if id_ in each.ids), None)
            if level is None or not level.ahead:
                continue
            if level.number != self._last_brought:
                self._tokens, self._brought = _MEMORY * self._tokens, _MEMORY * self._brought + 1
                self._last_brought = level.number
            self._tokens += 1
        while ids and self._levels and self._levels[0].ids.stop <= ids[0]:
            self._levels.popleft()

    def _choose(self) -> bool:
        ahead, one = self._seconds[True], self._seconds[False]
        if len(ahead) < _FIRST_TRIALS or self._brought < _FIRST_TRIALS * _MEMORY**_FIRST_TRIALS:
            return True
        if len(one) < _FIRST_TRIALS:
            return False
        pays = self._tokens / self._brought * median(one) >= median(ahead)
        if self._since_trial < _BETWEEN_TRIALS:
            return pays
        self._since_trial = 0
        return not pays
