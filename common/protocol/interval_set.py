"""A set of integers, here positions of a sequence, as disjoint intervals. Nothing else may live here."""

from collections.abc import Iterator
from typing import NamedTuple


class Interval(NamedTuple):
    """Positions `start` to `end - 1`."""

    start: int
    end: int


class IntervalSet:
    """Positions, kept as few intervals."""

    def __init__(self) -> None:
        self._intervals: list[Interval] = []  # ascending, apart from each other

    def __iter__(self) -> Iterator[Interval]:
        """The intervals in ascending order, none empty and none adjacent to another."""
        return iter(self._intervals)

    def add(self, start: int, end: int) -> None:
        """Adds positions `start` to `end - 1`."""
        if start >= end:
            return
        before = [interval for interval in self._intervals if interval.end < start]
        after = [interval for interval in self._intervals if interval.start > end]
        touched = self._intervals[len(before) : len(self._intervals) - len(after)]
        if touched:
            start, end = min(start, touched[0].start), max(end, touched[-1].end)
        self._intervals = [*before, Interval(start, end), *after]

    def remove(self, start: int, end: int) -> None:
        """Removes positions `start` to `end - 1`, whichever of them are in the set."""
        left: list[Interval] = []
        for interval in self._intervals:
            pieces = (
                Interval(interval.start, min(interval.end, start)),
                Interval(max(interval.start, end), interval.end),
            )
            left += [piece for piece in pieces if piece.start < piece.end] if start < end else [interval]
        self._intervals = left

    def cut(self, end: int) -> None:
        """Removes all positions from `end` on."""
        if self._intervals:
            self.remove(end, max(end, self._intervals[-1].end))

    def below(self, end: int) -> list[Interval]:
        """What lies below `end`, ascending."""
        return [Interval(start, min(stop, end)) for start, stop in self._intervals if start < end]
