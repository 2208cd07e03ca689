"""Admission by age: shorter prompts do not overtake a prompt for ever that was refused for lack of K/V slots; it holds
them up, in vain at most half of the time, and each time twice as long, up to a bound. Pure: time is an argument, in
seconds.

May know which client waits for how many tokens, and no session, stream or prompt.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass

_GRACE_S = 2.0
"""How much later than its retry-after time a client may come back and still keep its age."""

_MIN_HOLD_S = 5.0
_MAX_HOLD_S = 60.0  # of a first hold
_LONGEST_HOLD_S = 600.0  # of any
_ANSWERS_OF_A_HOLD = 2.0
"""The oldest may hold up others for this many times the usual duration of an answer: by then most running answers have
ended. Without a bound, one slow answer would let it block everybody. After a hold in vain the next one is twice as
long, so that one of them outlasts the answers that run: a prompt whose client keeps coming back is served within
about seven times as long as those answers take, unless they take longer than the longest hold."""

_MAX_WAITING = 256
"""Clients that come while this many wait are not kept in order."""


@dataclass(slots=True)
class _Waiting:
    tokens: float
    ends: float  # when it is given up
    has_returned: bool
    holds_up: str | None = None  # the one client that it may hold up; None for all
    hold_s: float = 0.0  # how long it last held up others; 0 before
    holds_until: float | None = None  # while it does


class WaitingLine:
    def __init__(self) -> None:
        self._waiting: dict[Hashable, _Waiting] = {}  # the oldest first
        self._rests_until: dict[str | None, float] = {}  # by the client that is held up, None for all

    def __len__(self) -> int:
        return len(self._waiting)

    def refused(self, who: Hashable, tokens: float, wait_s: float, now: float, holds_up: str | None = None) -> None:
        """A client that needs room for `tokens` tokens was refused, to come back after `wait_s`. It may hold up all
        others, or only the client that it `holds_up`."""
        self._remove(now)
        waiting = self._waiting.get(who)
        if waiting is not None:
            waiting.tokens, waiting.ends, waiting.has_returned = tokens, now + wait_s + _GRACE_S, True
            if waiting.holds_up != holds_up:
                self._end_hold(waiting, now)
                waiting.holds_up, waiting.hold_s = holds_up, 0.0
        elif len(self._waiting) < _MAX_WAITING:
            self._waiting[who] = _Waiting(tokens, now + wait_s + _GRACE_S, has_returned=False, holds_up=holds_up)

    def keep(self, who: Hashable, wait_s: float, now: float) -> None:
        """A client has to come back after `wait_s` for another reason: if it is in line, it keeps its age."""
        if (waiting := self._waiting.get(who)) is not None:
            waiting.ends = now + wait_s + _GRACE_S

    def served(self, who: Hashable) -> None:
        self._waiting.pop(who, None)

    def reserved(self, who: Hashable, now: float, answer_s: float, client: str) -> float:
        """Tokens that the request `who`, a prompt of `client`, must leave free for the oldest that came back in time.
        One that asks once and stays away holds up nobody. Answers usually take `answer_s`.

        After a hold in vain, nobody holds up the same ones for twice as long as it lasted, up to the bound.
        """
        self._remove(now)
        first_s = min(_MAX_HOLD_S, max(_MIN_HOLD_S, _ANSWERS_OF_A_HOLD * answer_s))
        for each, waiting in self._waiting.items():
            if each == who:
                return 0.0
            held = waiting.holds_up
            if not waiting.has_returned or held not in (None, client) or now < self._rests_until.get(held, -math.inf):
                continue
            if waiting.holds_until is None:
                waiting.hold_s = max(first_s, _next_hold_s(waiting.hold_s))
                waiting.holds_until = now + waiting.hold_s
            if now < waiting.holds_until:
                return waiting.tokens
            self._end_hold(waiting, now)
        return 0.0

    def _end_hold(self, waiting: _Waiting, now: float) -> None:
        """Its hold was in vain, if it has one: its time is up, it was given up, or it would now hold up others."""
        if waiting.holds_until is None:
            return
        ended = min(now, waiting.holds_until, waiting.ends)  # which nobody may have asked about for long
        waiting.hold_s -= waiting.holds_until - ended
        rests_until = ended + _next_hold_s(waiting.hold_s)
        self._rests_until[waiting.holds_up] = max(rests_until, self._rests_until.get(waiting.holds_up, -math.inf))
        waiting.holds_until = None

    def _remove(self, now: float) -> None:
        for who in [who for who, waiting in self._waiting.items() if waiting.ends < now]:
            self._end_hold(self._waiting.pop(who), now)


def _next_hold_s(hold_s: float) -> float:
    """The length of the hold that follows one in vain."""
    return min(_LONGEST_HOLD_S, 2 * hold_s)
