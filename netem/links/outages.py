"""When a link carries nothing at all: a tunnel, a handover.

Pure: a schedule in seconds since the link began, and arithmetic on it. Knows no rate, no packets and no clock. What
wants to cross in an outage is not lost; it waits at the transmitter, and where it finds no room in the queue it is
dropped there.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from common.protocol.errors import MisuseError


@dataclass(frozen=True)
class Outages:
    """gaps: (start, end) of each outage, in order, apart from each other. period_s: they repeat this often; None: once.

    Raises MisuseError for gaps that overlap, run backwards or leave the period.
    """

    gaps: tuple[tuple[float, float], ...] = ()
    period_s: float | None = None

    def __post_init__(self) -> None:
        bounds = [bound for gap in self.gaps for bound in gap]
        in_order = all(earlier < later for earlier, later in pairwise(bounds))
        if not (in_order and all(math.isfinite(bound) and bound >= 0 for bound in bounds)):
            raise MisuseError("outages need starts and ends in rising order, in seconds from 0 on: sort and part them")
        if self.period_s is None:
            return
        if not (math.isfinite(self.period_s) and self.period_s > 0):
            raise MisuseError(f"outages cannot repeat every {self.period_s} s: give more than 0, or None for once")
        if bounds and bounds[-1] > self.period_s:
            raise MisuseError(f"an outage ends at {bounds[-1]} s, after the period of {self.period_s} s: shorten it")
        if bounds and self.off_share() >= 1:
            raise MisuseError("the outages fill their whole period: leave the link some time to carry something")

    def resume_s(self, at_s: float) -> float:
        """The first moment from at_s on at which the link carries."""
        while (gap := self._gap_at(at_s)) is not None:
            at_s = gap
        return at_s

    def finish_s(self, start_s: float, work_s: float) -> float:
        """When work_s seconds of transmission end that begin at start_s and halt in outages."""
        if not self.gaps:
            return start_s + work_s
        at_s = self.resume_s(start_s)
        while at_s + work_s > (halted_s := self._next_start_s(at_s)):
            work_s -= halted_s - at_s
            at_s = self.resume_s(halted_s)
        return at_s + work_s

    def off_share(self) -> float:
        """The share of a period without a link; 0 where outages do not repeat."""
        return sum(end - start for start, end in self.gaps) / self.period_s if self.period_s else 0.0

    @cached_property
    def _starts_s(self) -> list[float]:
        return [start for start, _ in self.gaps]

    def _round_begin_s(self, at_s: float) -> float:
        return 0.0 if self.period_s is None else math.floor(at_s / self.period_s) * self.period_s

    def _gap_at(self, at_s: float) -> float | None:
        """The end of the outage at this moment."""
        if not self.gaps:
            return None
        begin_s = self._round_begin_s(at_s)
        index = bisect_right(self._starts_s, at_s - begin_s) - 1
        if index < 0:
            return None
        end_s = begin_s + self.gaps[index][1]
        return end_s if at_s < end_s else None

    def _next_start_s(self, at_s: float) -> float:
        begin_s = self._round_begin_s(at_s)
        index = bisect_right(self._starts_s, at_s - begin_s)
        if index < len(self.gaps):
            return begin_s + self._starts_s[index]
        return math.inf if self.period_s is None else begin_s + self.period_s + self._starts_s[0]


NEVER = Outages()
