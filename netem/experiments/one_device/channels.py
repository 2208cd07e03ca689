"""What may become of draft state between target and drafter: coarser numbers, a lag, gaps, a slow link.

Each channel serves one answer, as `common.rounds.StateChannel`. It may not know drafts, prompts or measurements.
"""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence

import torch

from common.codec import decode, encode
from common.protocol.draft_state import FIRST_POSITIONS, KEY_VALUES, StateKind, raw_bytes
from common.protocol.messages import State
from common.protocol.state_feed import Span, StateFeed

KEYS, VALUES = "keys", "values"
"""The halves of the kind `kv`, `[layers, 2, E_kv]` of each position."""

GAP = 16  # positions that are lost together

Scales = Mapping[str, torch.Tensor]
"""Static scales by part, of one position's shape."""


def parts(kind: str, rows: torch.Tensor) -> dict[str, torch.Tensor]:
    """State by what may be encoded apart: keys, values, or all of it under its kind. Views of `rows`."""
    return {KEYS: rows[:, :, 0], VALUES: rows[:, :, 1]} if kind == KEY_VALUES else {kind: rows}


class Coarse:
    """State in fewer bits: `dtypes` by part, others as they come. `scales` divide before and multiply after."""

    def __init__(self, dtypes: Mapping[str, str], scales: Scales | None = None):
        self._dtypes = dtypes
        self._scales = scales or {}

    def deliver(self, frames: Sequence[State], processed: int) -> Sequence[State]:
        return [self._coarsen(frame) for frame in frames]

    def _coarsen(self, frame: State) -> State:
        rows = _rows(frame)
        for part, numbers in parts(frame.kind, rows).items():
            if part in self._dtypes:
                dtype, scales = self._dtypes[part], self._scales.get(part)
                numbers.copy_(decode(encode(numbers, dtype, scales), dtype, tuple(numbers.shape), scales))
        return _frame(frame.kind, frame.start, rows, "float16")


class Recording:
    """Delivers everything and keeps it, by part."""

    def __init__(self) -> None:
        self.seen: dict[str, list[torch.Tensor]] = {}

    def deliver(self, frames: Sequence[State], processed: int) -> Sequence[State]:
        for frame in frames:
            for part, numbers in parts(frame.kind, _rows(frame)).items():
                self.seen.setdefault(part, []).append(numbers)
        return frames


def calibrated(seen: Mapping[str, Sequence[torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Static scales by part: every channel's root mean square."""
    return {part: torch.cat(list(rows)).square().mean(0).sqrt().clamp(min=1e-6) for part, rows in seen.items()}


class Lagging:
    """The newest `lag` positions that have state lack it still."""

    def __init__(self, lag: int):
        self._lag = lag
        self._held = _Held()

    def deliver(self, frames: Sequence[State], processed: int) -> Sequence[State]:
        self._held.add(frames)
        return self._held.take(range(processed - self._lag))


class Gapped:
    """A share of a prompt's positions, in stretches of `GAP`, never arrives; the first few always do."""

    def __init__(self, share: float, prompt: int, seed: int):
        stretches = range(FIRST_POSITIONS, prompt, GAP)
        draw = random.Random(seed)
        # Every stretch by its own draw, so that what a smaller share loses a larger one loses too.
        lost = [start for start in stretches if draw.random() < share]
        self._lost = {position for start in lost for position in range(start, min(start + GAP, prompt))}
        self._held = _Held()

    def deliver(self, frames: Sequence[State], processed: int) -> Sequence[State]:
        self._held.add(frames)
        return self._held.take(position for position in range(processed) if position not in self._lost)


class Slow:
    """A link that carries `bytes_per_round`, in the order and the frames of a session's `StateFeed`.

    `kinds` say how large state is to that link: a small model's state may pass for a large one's.
    """

    def __init__(self, order: str, bytes_per_round: float, kinds: Sequence[StateKind], dtype: str):
        self._feed = StateFeed(kinds, dtype, order)
        self._dtype = dtype
        self._bytes_per_round = bytes_per_round
        self._credit = 0.0
        self._now = 0.0
        self._frames = 0
        self._next: Span | None = None
        self._held = _Held()

    def deliver(self, frames: Sequence[State], processed: int) -> Sequence[State]:
        self._held.add(frames)
        self._credit += self._bytes_per_round
        self._now += 1.0
        arrived: list[State] = []
        while span := self._next or self._feed.next(processed):
            size = raw_bytes(self._dtype, (span.count, *span.kind.shape))
            if size > self._credit:
                self._next = span
                return arrived
            self._next = None
            self._credit -= size
            self._frames += 1
            self._feed.sent(span, size, self._now)
            self._feed.acknowledge(self._frames, self._now)
            arrived += self._held.take(range(span.start, span.start + span.count), {span.kind.name})
        # A link that had nothing to carry saves nothing up.
        self._credit = 0.0
        return arrived


class _Held:
    """State that was exported and not yet delivered, by kind and position."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[int, torch.Tensor]] = {}
        self._dtype = ""

    def add(self, frames: Iterable[State]) -> None:
        for frame in frames:
            self._dtype = frame.dtype
            rows = self._rows.setdefault(frame.kind, {})
            rows.update(enumerate(_rows(frame), start=frame.start))

    def take(self, positions: Iterable[int], kinds: Collection[str] = ()) -> list[State]:
        """Frames of whatever of these positions is held, and of these kinds, or all."""
        asked = list(positions)
        frames = []
        for kind in kinds or list(self._rows):
            rows = self._rows[kind]
            for stretch in _stretches(position for position in asked if position in rows):
                taken = torch.stack([rows.pop(position) for position in stretch])
                frames.append(_frame(kind, stretch[0], taken, self._dtype))
        return frames


def _stretches(positions: Iterable[int]) -> Iterable[list[int]]:
    """Ascending positions in adjacent runs."""
    run: list[int] = []
    for position in positions:
        if run and position != run[-1] + 1:
            yield run
            run = []
        run.append(position)
    if run:
        yield run


def _rows(frame: State) -> torch.Tensor:
    return decode(frame.payload, frame.dtype, frame.shape)[: frame.count]


def _frame(kind: str, start: int, rows: torch.Tensor, dtype: str) -> State:
    return State(0, start, len(rows), kind, dtype, tuple(rows.shape), encode(rows, dtype))
