"""The times at which a link carries nothing at all, as in a tunnel or a handover.

Pure: a schedule in seconds since the link began, and arithmetic on it. Knows no rate, no packets and no clock. A packet
that arrives in an outage is not lost by it: it waits at the transmitter, or is dropped where the queue is full.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count, pairwise

from common.protocol.errors import MisuseError


@dataclass(frozen=True)
class Outages:
    """gaps: (start, end) of each outage in seconds, in order and apart from each other. period_s: the schedule repeats
    after so long; None: it does not repeat.

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
        """The first time from at_s on at which the link carries."""
        for gap_start_s, gap_end_s in self._gaps_from(at_s):
            if at_s < gap_start_s:
                break
            at_s = gap_end_s
        return at_s

    def next_start_s(self, at_s: float) -> float:
        """The start of the first outage that begins after at_s; infinite where none does."""
        return next((start_s for start_s, _ in self._gaps_from(at_s) if start_s > at_s), math.inf)

    def finish_s(self, start_s: float, work_s: float) -> float:
        """When a transmission of work_s seconds ends that begins at start_s and halts in outages."""
        at_s = start_s
        for gap_start_s, gap_end_s in self._gaps_from(start_s):
            if at_s < gap_start_s and at_s + work_s <= gap_start_s:
                break
            work_s = max(0.0, work_s - max(0.0, gap_start_s - at_s))
            at_s = gap_end_s
        return at_s + work_s

    def off_share(self) -> float:
        """The share of a period in which the link carries nothing; 0 where outages do not repeat."""
        return sum(end - start for start, end in self.gaps) / self.period_s if self.period_s else 0.0

    @cached_property
    def _ends_s(self) -> list[float]:
        return [end for _, end in self.gaps]

    def _gaps_from(self, at_s: float) -> Iterator[tuple[float, float]]:
        """Start and end of every gap that ends after at_s, in order.

        Both come from the gap's number alone. Searching again by time would be wrong: a gap's own start, reduced to its
        period, may round to before the gap.
        """
        if self.period_s is None or not self.gaps:
            yield from self.gaps[bisect_right(self._ends_s, at_s) :]
            return
        rounds = math.floor(at_s / self.period_s)
        # From one gap earlier, because this time rounds too.
        first = bisect_right(self._ends_s, at_s - rounds * self.period_s) - 1
        for number in count(rounds * len(self.gaps) + first):
            rounds, index = divmod(number, len(self.gaps))
            begin_s, (start_s, end_s) = rounds * self.period_s, self.gaps[index]
            if begin_s + end_s > at_s:
                yield begin_s + start_s, begin_s + end_s


NEVER = Outages()
