"""Pass timings, shared by all sessions of a server: the duration of a pass, and of a level of server drafting. Pure.

Times in seconds on the caller's clock. Knows no session and no tree.
"""

import math

_GAIN = 1 / 8
_FADING = 0.98
"""A level's measured time shrinks by this at each pass without a level, so that a server that stopped drafting tries
again."""


class PassTimings:
    def __init__(self) -> None:
        self.pass_s = 0.0  # 0 until there was one
        self.sessions_drafted_for = 1  # sessions that share the drafting worker, in turn
        self.is_drafting = False  # a level is under way
        self._level_s = 0.0  # 0 until there was one
        self._first_level_s = 0.0  # of levels that read a prompt, too; 0 until there was one
        self._freshness = 1.0  # of both: passes without a level wear it off
        self._has_loaded = False
        self._has_drafted = False  # since the last pass

    @property
    def level_s(self) -> float:
        """The time between two levels of one session, its wait for other sessions included. An upper bound where all
        levels were first ones, because answers are short."""
        return (self._level_s or self._first_level_s) * self._freshness * self.sessions_drafted_for

    @property
    def levels_per_pass(self) -> float:
        """Levels that each session gets in the time of a pass; infinite until it is known."""
        level_s = self.level_s
        return self.pass_s / level_s if level_s else math.inf

    def has_levels(self, least: float) -> bool:
        """Whether a session gets at least so many levels in the time of a pass while it gets all of them, and at least
        half as many where all sessions share them."""
        return self.levels_per_pass >= least * max(0.5, 1 / self.sessions_drafted_for)

    def pass_ended(self, seconds: float) -> None:
        self.pass_s = _smoothed(self.pass_s, seconds)
        if not self._has_drafted and not self.is_drafting:
            self._freshness *= _FADING
        self._has_drafted = False

    def level_drafted(self, seconds: float) -> None:
        self._level_s = self._with_level(self._level_s, seconds)
        self._restore_freshness()

    def first_level_drafted(self, seconds: float) -> None:
        """A level that also read the prompt. The very first one may have loaded the draft model and is no sample."""
        if self._has_loaded:
            self._first_level_s = self._with_level(self._first_level_s, seconds)
        self._has_loaded = True
        self._restore_freshness()

    def _with_level(self, mean: float, seconds: float) -> float:
        """The mean with one more level. What has worn off counts for less, as the server no longer drafted."""
        return _smoothed(mean, seconds, gain=1 - (1 - _GAIN) * self._freshness)

    def _restore_freshness(self) -> None:
        """A level was drafted after the last pass."""
        self._has_drafted, self._freshness = True, 1.0


def _smoothed(mean: float, sample: float, gain: float = _GAIN) -> float:
    return mean + gain * (sample - mean) if mean else sample
