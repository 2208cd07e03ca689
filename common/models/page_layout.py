"""The calls in which the rows of a pass attend to their pages (`page_tasks.py`), and where each row finds its results.

It may not know kernels or K/V contents.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from common.models.page_tasks import PAGE, PageTask, page_tasks
from common.models.plan import AttentionPlan
from common.models.slot_ranges import split_ranges

# Shape letters: n rows of a section, H query heads, F of them for each key/value head, E page tasks of a call, M rows
# of each, R = F * M, P positions of a page, J pages up to the last position.
# ruff: noqa: N803, N806

_ROWS_MULTIPLE = 4
"""Fewer rows than this, or a number that is no multiple of it, take other kernels in float32 (measured with MKL)."""

_PAGES_AT_ONCE = 32
"""The keys and values of so many pages stay in a CPU's cache in float32."""

_PARTIALS_AT_ONCE = 16_777_216
"""Numbers of partial results that are kept at once; more rows than that allows are another section."""


@dataclass(frozen=True, eq=False, slots=True)
class PageCall:
    """Page tasks of as many rows each."""

    slots: slice | torch.Tensor
    """Of E pages, one after another."""
    rows_EM: torch.Tensor  # noqa: N815
    """Rows of the pass; padding repeats one of the same task."""
    mask_E1RP: torch.Tensor | None  # noqa: N815
    """Added to scores; `None` where every row sees every position. A row that sees none sees the first one, so that its
    result is finite; its weight is 0."""


@dataclass(frozen=True, eq=False, slots=True)
class Section:
    """Rows of a pass that follow one another, with everything that they attend to."""

    calls: Sequence[PageCall]
    gather_JnH: torch.Tensor  # noqa: N815
    """In the results of all calls, `[E, H, M]` each and laid end to end. Where a row does not see a page, the index is
    another one of the same row, so that no session's numbers reach another's."""
    seen_Jn1: torch.Tensor  # noqa: N815


@dataclass(frozen=True, slots=True)
class LayerKind:
    """What the layout of a layer depends on."""

    heads: int
    shared: int
    """Query heads for each key/value head."""
    value_dim: int
    window: int | None
    chunk: int | None
    dtype: torch.dtype
    """Of scores."""

    def visible(self, queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Which positions of keys a query at a position sees, broadcast."""
        visible: np.ndarray = keys <= queries
        if self.window is not None:
            visible = visible & (queries - keys < self.window)
        if self.chunk is not None:
            visible = visible & (queries // self.chunk == keys // self.chunk)
        return visible


def lay_out_pages(plan: AttentionPlan, kind: LayerKind) -> list[Section]:
    positions = np.concatenate([segment.branch_positions[-segment.new :] for segment in plan.segments])
    tasks = [task for segment in plan.segments for task in page_tasks(segment)]
    partials = np.cumsum((positions // PAGE + 1) * kind.heads * kind.value_dim)
    section_of_row = (partials - 1) // _PARTIALS_AT_ONCE
    firsts = np.flatnonzero(np.diff(section_of_row, prepend=-1))
    ends = [*firsts[1:].tolist(), plan.rows]
    return [
        _section(_within(tasks, first, end), positions, range(first, end), kind, plan.device)
        for first, end in zip(firsts.tolist(), ends, strict=True)
    ]


def _within(tasks: Iterable[PageTask], first: int, end: int) -> Iterator[PageTask]:
    for task in tasks:
        rows = task.rows[(task.rows >= first) & (task.rows < end)]
        if len(rows):
            yield PageTask(task.page, task.slots, rows)


def _section(
    tasks: Iterable[PageTask], positions: np.ndarray, rows: range, kind: LayerKind, device: torch.device
) -> Section:
    own = slice(rows.start, rows.stop)
    pages = int(positions[own].max()) // PAGE + 1
    seen_Jn = np.zeros((pages, len(rows)), dtype=np.bool_)
    before_Jn, size_Jn, index_Jn = (np.zeros((pages, len(rows)), dtype=np.int64) for _ in range(3))
    calls = []
    before = 0
    for size, batch in _batches(tasks, positions, kind):
        rows_EM = np.stack([np.pad(task.rows, (0, size - len(task.rows)), mode="edge") for task in batch])
        pages_E = np.array([task.page for task in batch])
        keys_E1P = (pages_E[:, None] * PAGE + np.arange(PAGE))[:, None]
        visible_EMP = kind.visible(positions[rows_EM][..., None], keys_E1P)
        seen_EM = np.any(visible_EMP, axis=-1)
        for index, task in enumerate(batch):
            at = task.page, task.rows - rows.start
            seen_Jn[at] = seen_EM[index][: len(task.rows)]
            before_Jn[at], size_Jn[at], index_Jn[at] = before + index * size, size, np.arange(len(task.rows))
        before += rows_EM.size
        slots = np.concatenate([task.slots for task in batch])
        mask = None if visible_EMP.all() else _mask(visible_EMP, kind).to(device)
        calls.append(PageCall(_slots(slots, device), _to(rows_EM, device), mask))
    gather_JnH = (before_Jn * kind.heads + index_Jn)[..., None] + size_Jn[..., None] * np.arange(kind.heads)
    seen_one = gather_JnH[seen_Jn.argmax(0), np.arange(len(rows))]
    gather_JnH = np.where(seen_Jn[..., None], gather_JnH, seen_one)
    return Section(calls, _to(gather_JnH, device), _to(seen_Jn[..., None], device))


def _batches(
    tasks: Iterable[PageTask], positions: np.ndarray, kind: LayerKind
) -> Iterator[tuple[int, Sequence[PageTask]]]:
    """Tasks in which some row sees something, by the number of rows to which they are padded."""
    unit = _ROWS_MULTIPLE // math.gcd(_ROWS_MULTIPLE, kind.shared)
    by_size: dict[int, list[PageTask]] = {}
    for task in tasks:
        keys = task.page * PAGE + np.arange(PAGE)
        if np.any(kind.visible(positions[task.rows][:, None], keys)):
            by_size.setdefault(-(-len(task.rows) // unit) * unit, []).append(task)
    for size, alike in sorted(by_size.items()):
        for first in range(0, len(alike), _PAGES_AT_ONCE):
            yield size, alike[first : first + _PAGES_AT_ONCE]


def _slots(slots: np.ndarray, device: torch.device) -> slice | torch.Tensor:
    """A view of the pool where slots follow one another."""
    firsts, _ = split_ranges(slots)
    return slice(int(slots[0]), int(slots[-1]) + 1) if len(firsts) == 1 else _to(slots, device)


def _mask(visible_EMP: np.ndarray, kind: LayerKind) -> torch.Tensor:
    visible_EMP[..., 0] |= ~visible_EMP.any(-1)
    mask_EMP = torch.zeros(visible_EMP.shape, dtype=kind.dtype).masked_fill_(
        torch.from_numpy(~visible_EMP), float("-inf")
    )
    return mask_EMP[:, None].expand(-1, kind.shared, -1, -1).reshape(len(visible_EMP), 1, -1, PAGE)


def _to(array: np.ndarray, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(array).to(device)
