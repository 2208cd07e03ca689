"""What all sessions of a server share of its time: how long a pass takes, and a level of its own drafter. Pure.

Times in seconds on the caller's clock. Knows no session and no tree.
"""

import math

_GAIN = 1 / 8
_FADING = 0.98
"""What a pass leaves of a level's time where none was drafted, so that a server that stopped tries again."""


class PassTimings:
    def __init__(self) -> None:
        self.pass_seconds = 0.0  # 0 until there was one
        self.sessions_drafted_for = 1  # sessions that have a level drafted in turn
        self.is_drafting = False  # a level is under way
        self._level_seconds = 0.0  # 0 until there was one
        self._first_seconds = 0.0  # of levels that read a prompt, too; 0 until there was one
        self._has_loaded = False
        self._drafts = False  # since the last pass

    @property
    def level_seconds(self) -> float:
        """Of one level for one session, its wait for the others' included; at most, where answers are so short that
        all levels were first ones."""
        return (self._level_seconds or self._first_seconds) * self.sessions_drafted_for

    @property
    def levels_per_pass(self) -> float:
        """Levels that are drafted for each session in the time of a pass; infinite until it is known."""
        level_seconds = self.level_seconds
        return self.pass_seconds / level_seconds if level_seconds else math.inf

    def pass_ended(self, seconds: float) -> None:
        self.pass_seconds = _smoothed(self.pass_seconds, seconds)
        if not self._drafts and not self.is_drafting:
            self._level_seconds *= _FADING
            self._first_seconds *= _FADING
        self._drafts = False

    def level_drafted(self, seconds: float) -> None:
        self._drafts = True
        self._level_seconds = _smoothed(self._level_seconds, seconds)

    def first_level_drafted(self, seconds: float) -> None:
        """A level that also read what came before it; the very first may have loaded the draft, and says nothing."""
        self._drafts = True
        if self._has_loaded:
            self._first_seconds = _smoothed(self._first_seconds, seconds)
        self._has_loaded = True


def _smoothed(mean: float, sample: float) -> float:
    return mean + _GAIN * (sample - mean) if mean else sample
