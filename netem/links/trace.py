"""A link whose rate changes over time by a trace, as in Mahimahi (Netravali et al. 2015).

A trace is a list of milliseconds, each an opportunity to transmit 1500 bytes. An opportunity with nothing to transmit
is wasted, and after the last one the list begins again. Pure: time is an argument, in seconds since the link began.
Knows no files (mahimahi.py reads them) and no other fault than the outages, which remove opportunities.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise

from common.protocol.errors import MisuseError
from netem.links.outages import NEVER, Outages

OPPORTUNITY_BYTES = 1500
MOST_MS = 10**12
"""30 years: seconds as floats are exact to the microsecond up to there."""

_MS_PER_S = 1000.0
_BITS_PER_BYTE = 8
_MOST_OUTAGES = 20_000
"""Opportunities in a row that fall into outages. Trace and outages both repeat, so after so many there will be none."""


@dataclass(frozen=True)
class Trace:
    """opportunities_ms: whole milliseconds in ascending order, repeats allowed; the last one is also the period.

    Raises MisuseError where there are none, where they descend, where none is above 0, or one is above MOST_MS.
    """

    opportunities_ms: tuple[int, ...]

    def __post_init__(self) -> None:
        moments = self.opportunities_ms
        if not moments or moments[-1] <= 0:
            raise MisuseError("a trace needs an opportunity after millisecond 0: record or generate a longer one")
        if moments[0] < 0 or any(later < earlier for earlier, later in pairwise(moments)):
            raise MisuseError("a trace's milliseconds may not fall or be negative: sort them")
        if moments[-1] > MOST_MS:
            raise MisuseError(f"a trace's milliseconds may be at most {MOST_MS:,}: give a shorter one")

    @property
    def period_ms(self) -> int:
        return self.opportunities_ms[-1]

    @property
    def mean_rate_bits_per_s(self) -> float:
        return len(self.opportunities_ms) * OPPORTUNITY_BYTES * _BITS_PER_BYTE * _MS_PER_S / self.period_ms


class TraceLine:
    """The transmitter of one direction, shared by everything that crosses in that direction.

    Raises MisuseError where the outages leave no opportunity.
    """

    def __init__(self, trace: Trace, outages: Outages = NEVER) -> None:
        self._moments_ms = trace.opportunities_ms
        self._period_ms = trace.period_ms
        self._outages = outages
        self._round = 0
        self._index = -1
        # The opportunity in use, and what is left of it.
        self._at_s = float("-inf")
        self._left_bytes = 0
        self._carried(0, 0)  # raises for a link that never carries

    def send(self, size_bytes: int, arrival_s: float) -> float:
        """Accept size_bytes that arrived at arrival_s; return when the last bit has been transmitted."""
        if arrival_s > self._at_s:
            self._seek(arrival_s)
        while size_bytes > self._left_bytes:
            size_bytes -= self._left_bytes
            self._take(self._round, self._index + 1)
        self._left_bytes -= size_bytes
        return self._at_s

    def backlog_s(self, now_s: float) -> float:
        """Seconds from now until all that was accepted has been transmitted."""
        return max(0.0, self._at_s - now_s)

    def _seek(self, at_s: float) -> None:
        """Moves to the first opportunity from at_s on."""
        self._take(*self._place_of(at_s))

    def _take(self, rounds: int, index: int) -> None:
        self._round, self._index = self._carried(rounds, index)
        self._at_s = self._moment_s(self._round, self._index)
        self._left_bytes = OPPORTUNITY_BYTES

    def _carried(self, rounds: int, index: int) -> tuple[int, int]:
        """The first opportunity from this one on that is in no outage."""
        for _ in range(_MOST_OUTAGES):
            if index == len(self._moments_ms):
                rounds, index = rounds + 1, 0
            at_s = self._moment_s(rounds, index)
            resumed_s = self._outages.resume_s(at_s)
            if resumed_s <= at_s:
                return rounds, index
            # At least the next one: the end of an outage may round to the opportunity that was in it.
            rounds, index = max((rounds, index + 1), self._place_of(resumed_s))
        raise MisuseError(
            "every opportunity of the trace falls into an outage: shorten the outages or change their period"
        )

    def _place_of(self, at_s: float) -> tuple[int, int]:
        at_ms = at_s * _MS_PER_S
        # The last opportunity of a round belongs to that round and not to the next one.
        rounds = max(0, math.ceil(at_ms / self._period_ms) - 1)
        return rounds, bisect_left(self._moments_ms, at_ms - rounds * self._period_ms)

    def _moment_s(self, rounds: int, index: int) -> float:
        return (rounds * self._period_ms + self._moments_ms[index]) / _MS_PER_S
