"""What all sessions of a server share of its time: how long a pass takes, and a level of its own drafter. Pure.

Times in seconds on the caller's clock. Knows no session and no tree.
"""

import math

_GAIN = 1 / 8


class Pulse:
    def __init__(self) -> None:
        self.pass_seconds = 0.0  # 0 until there was one
        self.rivals = 1  # sessions that have a level drafted in turn
        self._level_seconds = 0.0  # 0 until there was one

    @property
    def level_seconds(self) -> float:
        """Of one level for one session, its wait for the others' included."""
        return self._level_seconds * self.rivals

    @property
    def levels_per_pass(self) -> float:
        """Levels that are drafted for each session in the time of a pass; infinite until it is known."""
        return self.pass_seconds / self.level_seconds if self._level_seconds else math.inf

    def passed(self, seconds: float) -> None:
        self.pass_seconds = _smoothed(self.pass_seconds, seconds)

    def drafted(self, seconds: float) -> None:
        self._level_seconds = _smoothed(self._level_seconds, seconds)


def _smoothed(mean: float, sample: float) -> float:
    return mean + _GAIN * (sample - mean) if mean else sample
