"""Admission by age: a prompt that was refused for want of K/V is not overtaken for ever by shorter ones. Pure: time is
an argument, in seconds.

May know how many tokens somebody waits for, and no session, stream or prompt.
"""

from collections.abc import Hashable
from dataclasses import dataclass

_GRACE_S = 2.0
"""How much later than it was told somebody may come back and still keep its age."""

_MOST_WAITING = 256
"""Who comes when so many wait is served as chance will have it."""


@dataclass(slots=True)
class _Place:
    tokens: float
    ends: float  # when it is given up
    has_returned: bool


class WaitingLine:
    def __init__(self) -> None:
        self._places: dict[Hashable, _Place] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._places)

    def refused(self, who: Hashable, tokens: float, wait_s: float, now: float) -> None:
        """Somebody who wants room for so many tokens was told to come back after `wait_s`."""
        self._forget(now)
        place = self._places.get(who)
        if place is not None:
            place.tokens, place.ends, place.has_returned = tokens, now + wait_s + _GRACE_S, True
        elif len(self._places) < _MOST_WAITING:
            self._places[who] = _Place(tokens, now + wait_s + _GRACE_S, has_returned=False)

    def served(self, who: Hashable) -> None:
        self._places.pop(who, None)

    def reserved(self, who: Hashable, now: float) -> float:
        """Tokens that this one must leave free for the oldest that came back when it was told to: who asks once and
        stays away holds up nobody."""
        self._forget(now)
        for each, place in self._places.items():
            if each == who:
                return 0.0
            if place.has_returned:
                return place.tokens
        return 0.0

    def _forget(self, now: float) -> None:
        for who in [who for who, place in self._places.items() if place.ends < now]:
            del self._places[who]
