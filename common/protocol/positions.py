"""A set of positions in few stretches. Nothing else may live here."""

from collections.abc import Iterator
from typing import NamedTuple


class Stretch(NamedTuple):
    """Positions `start` to `end - 1`."""

    start: int
    end: int


class Positions:
    def __init__(self) -> None:
        self._stretches: list[Stretch] = []  # ascending, apart from each other

    def __iter__(self) -> Iterator[Stretch]:
        """The stretches in ascending order, none empty and none adjacent to another."""
        return iter(self._stretches)

    def add(self, start: int, end: int) -> None:
        """Adds positions `start` to `end - 1`."""
        if start >= end:
            return
        before = [stretch for stretch in self._stretches if stretch.end < start]
        after = [stretch for stretch in self._stretches if stretch.start > end]
        touched = self._stretches[len(before) : len(self._stretches) - len(after)]
        if touched:
            start, end = min(start, touched[0].start), max(end, touched[-1].end)
        self._stretches = [*before, Stretch(start, end), *after]

    def remove(self, start: int, end: int) -> None:
        """Removes positions `start` to `end - 1`, whichever of them are in the set."""
        left: list[Stretch] = []
        for stretch in self._stretches:
            pieces = (Stretch(stretch.start, min(stretch.end, start)), Stretch(max(stretch.start, end), stretch.end))
            left += [piece for piece in pieces if piece.start < piece.end] if start < end else [stretch]
        self._stretches = left

    def cut(self, end: int) -> None:
        """Removes all positions from `end` on."""
        if self._stretches:
            self.remove(end, max(end, self._stretches[-1].end))

    def below(self, end: int) -> list[Stretch]:
        """What lies below `end`, ascending."""
        return [Stretch(start, min(stop, end)) for start, stop in self._stretches if start < end]
