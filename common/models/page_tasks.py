"""Which pages of the context each row of a pass attends to, where the result of a row may not depend on other rows.

A page holds the `PAGE` positions that follow a multiple of `PAGE`, on one path of a session's tree: a token's place in
it is given by its position alone, whether it is committed, a node, or part of a prompt that is still being read. Rows
share a page where their paths agree in it. Integers and numpy only; it may not know models, K/V contents or torch.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from common.models.plan import TracedSegment

PAGE = 64
"""Positions in a page. Larger ones copy more for each leaf of a tree, smaller ones leave more partial results to merge
(measured on a CPU: 64 and 128 are alike, 32 is slower)."""


@dataclass(frozen=True, eq=False, slots=True)
class PageTask:
    """A page, and the rows that attend to it."""

    page: int
    """Its first position, divided by `PAGE`."""
    slots: np.ndarray
    """`[PAGE]`. Behind the end of the path they repeat a slot of it, which rows hide by their own position."""
    rows: np.ndarray
    """Rows of the pass, of one segment. Some may see nothing of the page."""


def page_tasks(segment: TracedSegment) -> Iterator[PageTask]:
    """All pages of a segment's new tokens: those that every row shares, then those of the tree."""
    rows = np.arange(segment.first_row, segment.first_row + segment.new)
    trunk_slots = _trunk_slots(segment)
    whole = len(trunk_slots) // PAGE
    for page in range(whole):
        yield PageTask(page, trunk_slots[page * PAGE : (page + 1) * PAGE], rows)
    yield from _tail_tasks(segment, whole)


def _trunk_slots(segment: TracedSegment) -> np.ndarray:
    """The slots of the positions that are the same on every path: the past, and the first levels of one branch each."""
    depths = segment.ancestry.depths
    sizes = np.bincount(depths)
    wider = np.flatnonzero(sizes > 1)
    levels = int(wider[0]) if len(wider) else len(sizes)
    in_trunk = np.flatnonzero(depths < levels)
    slots = np.empty(levels, dtype=np.int64)
    slots[depths[in_trunk]] = segment.context_slots[segment.past + in_trunk]
    return np.concatenate([segment.context_slots[: segment.past], slots])


def _tail_tasks(segment: TracedSegment, first_page: int) -> Iterator[PageTask]:
    """From `first_page` on, a page for each branch without a child in its own page, and the rows on its path."""
    past = segment.past
    parents = segment.ancestry.parents
    pages: list[int] = (segment.branch_positions // PAGE).tolist()
    slots: list[int] = segment.context_slots[past:].tolist()
    branches = len(pages)
    end_below = list(range(branches))
    before_page = [-1] * branches  # the nearest ancestor in an earlier page
    for branch, parent in enumerate(parents):
        if parent >= 0:
            before_page[branch] = before_page[parent] if pages[parent] == pages[branch] else parent
    for branch in range(branches - 1, -1, -1):
        parent = parents[branch]
        if parent >= 0 and pages[parent] == pages[branch]:
            end_below[parent] = end_below[branch]

    rows_of_end: dict[int, list[int]] = {}
    for row, branch in enumerate(range(branches - segment.new, branches), segment.first_row):
        while branch >= 0 and pages[branch] >= first_page:
            rows_of_end.setdefault(end_below[branch], []).append(row)
            branch = before_page[branch]
    for end, rows in rows_of_end.items():
        path = []
        branch = end
        while branch >= 0 and pages[branch] == pages[end]:
            path.append(slots[branch])
            branch = parents[branch]
        committed = segment.context_slots[pages[end] * PAGE : past]
        held = np.concatenate([committed, np.asarray(path[::-1], dtype=np.int64)])
        yield PageTask(pages[end], np.pad(held, (0, PAGE - len(held)), mode="edge"), np.asarray(rows))
