"""How views are cut into pieces, and which pieces one launch of variable-length attention takes.

Such a launch takes sequences that lie end to end. A layer's pool is taken as one such row: each piece of a view is a
sequence, and what lies between two pieces is a sequence without queries, for which no block is launched. Sessions that
share a prefix have views of the same slots, whose pieces are one sequence with the queries of all; pieces that overlap,
and many of one row beside many rows, take several launches. A long view is cut because a GPU is busy only with many
sequences at a time (Dao et al. 2023, Flash-Decoding).

Integers only: it may not know segments, contents of K/V, or kernels.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from common.models.attention_layout import View

# Shape letters: T rows of a launch, N packed rows, P pieces of the row that has most, G sequences with queries.
# ruff: noqa: N806, N815

_BLOCKS = 256
"""Blocks of threads that a launch should have at least: two for each of an H100's 132 multiprocessors."""
_TILE = 64
"""Rows of queries of one block."""
_SHORTEST_PIECE = 256
"""Slots; cutting further costs more in the merge than it saves."""
_MOST_RESULTS = 8_192
"""Of a launch: packed rows times pieces of the row that has most, unless there are more rows. Merging so many results
takes about 0.5 GB with 32 heads of 128."""


@dataclass(frozen=True, eq=False)
class Launch:
    """Pieces of views that do not overlap, in the order of their slots."""

    rows_T: np.ndarray
    """Packed rows, piece by piece: each comes once for each of its pieces."""
    turns_T: np.ndarray
    """The how-manieth piece of its row each is, from 0 on."""
    query_offsets: np.ndarray
    """`[2 * G + 1]`: where the queries of each sequence begin, and their end, int32."""
    key_offsets: np.ndarray
    """`[2 * G + 1]`: the slot at which each sequence begins, and the end of the last, int32."""
    most_queries: int
    most_keys: int

    @property
    def most_pieces(self) -> int:
        """P."""
        return int(self.turns_T.max()) + 1

    def piece_index(self, rows: int, pieces: int) -> tuple[np.ndarray, np.ndarray]:
        """`[P, N]` of so many packed rows and pieces: where in `rows_T` each piece of a row is, 0 where the row has no
        such piece; and whether it has."""
        index_PN = np.zeros((pieces, rows), dtype=np.int64)
        has_piece_PN = np.zeros((pieces, rows), dtype=np.bool_)
        index_PN[self.turns_T, self.rows_T] = np.arange(len(self.rows_T))
        has_piece_PN[self.turns_T, self.rows_T] = True
        return index_PN, has_piece_PN


def launches_over(views: Sequence[View], kv_heads: int, shared: int) -> list[Launch]:
    """For layers with so many key/value heads, each with so many query heads."""
    rows = max((view.rows.stop for view in views), default=1)
    # A power of two, to which buckets round up.
    most_pieces = 1 << (max(1, _MOST_RESULTS // rows).bit_length() - 1)
    length = _piece_length(views, kv_heads, shared, most_pieces)
    pieces: dict[tuple[int, int], list[slice]] = {}
    for view in views:
        for first in range(view.slots.start, view.slots.stop, length):
            pieces.setdefault((first, min(first + length, view.slots.stop)), []).append(view.rows)
    # Of the rows from each first row on: how many pieces they have, counted together for rows that share one.
    turns: defaultdict[int, int] = defaultdict(int)
    launches: defaultdict[int, list[list[tuple[int, int]]]] = defaultdict(list)
    for start, stop in sorted(pieces):
        first_rows = [each.start for each in pieces[start, stop]]
        turn = max(turns[row] for row in first_rows)
        turns.update(dict.fromkeys(first_rows, turn + 1))
        considered = launches[turn // most_pieces]
        behind = next((launch for launch in considered if launch[-1][1] <= start), None)
        if behind is None:
            considered.append(behind := [])
        behind.append((start, stop))
    return [_launch(slots, [pieces[each] for each in slots]) for several in launches.values() for slots in several]


def _piece_length(views: Sequence[View], kv_heads: int, shared: int, most_pieces: int) -> int:
    """So short that there are blocks enough; so long that a row has `most_pieces` pieces and at most one more for each
    of its views. A power of two, so that a growing context seldom changes it."""
    changes: defaultdict[int, int] = defaultdict(int)
    slots_of_rows: defaultdict[int, int] = defaultdict(int)
    for view in views:
        changes[view.slots.start] += view.rows.stop - view.rows.start
        changes[view.slots.stop] -= view.rows.stop - view.rows.start
        slots_of_rows[view.rows.start] += view.slots.stop - view.slots.start
    # Rows that see the same slots share blocks.
    rows = blocks_of_slots = 0
    for (slot, change), (following, _) in pairwise(sorted(changes.items())):
        rows += change
        blocks_of_slots += -(-rows * shared // _TILE) * (following - slot)
    enough_blocks = -(-blocks_of_slots * kv_heads // _BLOCKS)
    few_pieces = -(-max(slots_of_rows.values(), default=0) // most_pieces)
    return 1 << (max(_SHORTEST_PIECE, enough_blocks, few_pieces) - 1).bit_length()


def _launch(slots: Sequence[tuple[int, int]], rows: Sequence[Sequence[slice]]) -> Launch:
    of_sequence = [np.concatenate([np.arange(each.start, each.stop) for each in several]) for several in rows]
    rows_T = np.concatenate(of_sequence)
    # From slot 0 on, every second sequence is a gap.
    counts = [count for each in of_sequence for count in (0, len(each))]
    return Launch(
        rows_T=rows_T,
        turns_T=_turns(rows_T),
        query_offsets=np.cumsum([0, *counts], dtype=np.int32),
        key_offsets=np.array([0, *(bound for each in slots for bound in each)], dtype=np.int32),
        most_queries=max(map(len, of_sequence)),
        most_keys=max(stop - start for start, stop in slots),
    )


def _turns(rows: np.ndarray) -> np.ndarray:
    """How often each row comes before."""
    order = np.argsort(rows, kind="stable")
    ordered, index = rows[order], np.arange(len(rows))
    is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    turns = np.empty_like(index)
    turns[order] = index - np.maximum.accumulate(np.where(is_first, index, 0))
    return turns
