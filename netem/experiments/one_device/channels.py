"""Channels that alter draft state between target and drafter: fewer bits, a lag, gaps, a slow link.

Each serves one answer, as `common.rounds.StateChannel`. It may not know draft models, prompts or measurements.
"""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence

import torch

from common.codec import decode, encode
from common.protocol.draft_state import FIRST_POSITIONS, KEY_VALUES, StateKind, raw_bytes
from common.protocol.messages import State
from common.protocol.state_feed import Span, StateFeed

KEYS, VALUES = "keys", "values"
"""The halves of state of the kind `kv`, whose shape is `[layers, 2, E_kv]` for each position."""

GAP = 16  # positions that are lost together

Scales = Mapping[str, torch.Tensor]
"""Static scales by part, of one position's shape."""


def parts(kind: str, rows: torch.Tensor) -> dict[str, torch.Tensor]:
    """The parts of state that may be encoded differently: keys and values, or all of it under its kind.

    rows: [positions, *shape of the kind]; the parts are views of it.
    """
    return {KEYS: rows[:, :, 0], VALUES: rows[:, :, 1]} if kind == KEY_VALUES else {kind: rows}


class CoarseChannel:
    """Encodes state in fewer bits. dtypes: by part; other parts stay the same. scales: divide before the encoding and
    multiply after it."""

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


class RecordingChannel:
    """Delivers everything, and records it by part."""

    def __init__(self) -> None:
        self.seen: dict[str, list[torch.Tensor]] = {}

    def deliver(self, frames: Sequence[State], processed: int) -> Sequence[State]:
        for frame in frames:
            for part, numbers in parts(frame.kind, _rows(frame)).items():
                self.seen.setdefault(part, []).append(numbers)
        return frames


def calibrated(seen: Mapping[str, Sequence[torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Static scales by part: the root mean square of each channel of the state."""
    return {part: torch.cat(list(rows)).square().mean(0).sqrt().clamp(min=1e-6) for part, rows in seen.items()}


class LaggingChannel:
    """Holds back the state of the newest `lag` positions that have any."""

    def __init__(self, lag: int):
        self._lag = lag
        self._pending = _PendingState()

    def deliver(self, frames: Sequence[State], processed: int) -> Sequence[State]:
        self._pending.add(frames)
        return self._pending.take(range(processed - self._lag))


class GappedChannel:
    """Drops the state of a share of the prompt's positions, in runs of `GAP`; the first few always arrive."""

    def __init__(self, share: float, prompt: int, seed: int):
        stretches = range(FIRST_POSITIONS, prompt, GAP)
        draw = random.Random(seed)
        # One draw for each run, so that a larger share loses what a smaller one loses too.
        lost = [start for start in stretches if draw.random() < share]
        self._lost = {position for start in lost for position in range(start, min(start + GAP, prompt))}
        self._pending = _PendingState()

    def deliver(self, frames: Sequence[State], processed: int) -> Sequence[State]:
        self._pending.add(frames)
        return self._pending.take(position for position in range(processed) if position not in self._lost)


class SlowChannel:
    """A link that carries `bytes_per_round`, in the order and the frames of a session's `StateFeed`.

    kinds: the size of state on the link, so that the state of a small model may be counted as that of a large one.
    """

    def __init__(self, order: str, bytes_per_round: float, kinds: Sequence[StateKind], dtype: str):
        self._feed = StateFeed(kinds, dtype, order)
        self._dtype = dtype
        self._bytes_per_round = bytes_per_round
        self._credit = 0.0
        self._now = 0.0
        self._frames = 0
        self._next: Span | None = None
        self._pending = _PendingState()

    def deliver(self, frames: Sequence[State], processed: int) -> Sequence[State]:
        self._pending.add(frames)
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
            arrived += self._pending.take(range(span.start, span.start + span.count), {span.kind.name})
        # Capacity that was not used is lost.
        self._credit = 0.0
        return arrived


class _PendingState:
    """State that is exported and not yet delivered, by kind and position."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[int, torch.Tensor]] = {}
        self._dtype = ""

    def add(self, frames: Iterable[State]) -> None:
        for frame in frames:
            self._dtype = frame.dtype
            rows = self._rows.setdefault(frame.kind, {})
            rows.update(enumerate(_rows(frame), start=frame.start))

    def take(self, positions: Iterable[int], kinds: Collection[str] = ()) -> list[State]:
        """Frames with the state of these positions, as far as it is here. kinds: empty for all."""
        wanted = list(positions)
        frames = []
        for kind in kinds or list(self._rows):
            rows = self._rows[kind]
            for stretch in _stretches(position for position in wanted if position in rows):
                taken = torch.stack([rows.pop(position) for position in stretch])
                frames.append(_frame(kind, stretch[0], taken, self._dtype))
        return frames


def _stretches(positions: Iterable[int]) -> Iterable[list[int]]:
    """Ascending positions, divided into runs of adjacent ones."""
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
