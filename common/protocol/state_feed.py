"""The state feed: which draft state a session's client lacks, and which span of it to send next. Pure: times are
arguments, in seconds.

Knows positions and bytes, and neither tensors nor tokens. `next` claims a `Span`, the server exports and encodes it,
and `sent` reports it. A rewritten history or a new stream in between makes the span void.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from common.protocol.draft_state import FIRST_POSITIONS, KEY_VALUES, StateKind, raw_bytes
from common.protocol.errors import MisuseError, PeerError
from common.protocol.interval_set import Interval, IntervalSet
from common.protocol.messages import StateRequest
from common.protocol.state_window import StateWindow

FRAME_BYTES = 16 * 1024
"""The longest payload of a frame, before compression; a single position may need more."""

_KEPT_FREE = 0.5
"""The share of the window that is reserved for state that is wanted now."""

Intervals = Sequence[Interval]
Order = Callable[[Intervals, int], Interval]


@dataclass(frozen=True, slots=True)
class Span:
    """State of `count` positions from `start` to send. It is void once the feed's epoch is another."""

    kind: StateKind
    start: int
    count: int
    epoch: int


class StateFeed:
    def __init__(
        self, kinds: Sequence[StateKind], dtype: str, order: str = "newest", later: Collection[StateKind] = ()
    ):
        """`kinds` in the order in which they go where positions tie; kinds that are wanted `later` go when nothing else
        waits. `order` is one of ORDERS; raises MisuseError for another."""
        if order not in ORDERS:
            raise MisuseError(f"unknown order of draft state '{order}'; choose from: {', '.join(ORDERS)}")
        self.kinds = tuple(kinds)
        self.dtype = dtype
        self._later = frozenset(later)
        self._urgency, self._choose = ORDERS[order]
        self._epoch = 0
        self._seen = 0  # positions that were ever pending
        self._pending = {kind: IntervalSet() for kind in self.kinds}
        self._claimed: dict[Span, int] = {}  # and the most bytes that it can need
        self._flights: deque[Span] = deque()
        self._arrived = 0  # frames on this stream
        self._window = StateWindow()

    def next(self, processed: int) -> Span | None:
        """Claims the next span to send; None where nothing is left or the window is full. The first `processed`
        positions can be exported."""
        for pending in self._pending.values():
            pending.add(self._seen, processed)
        self._seen = max(self._seen, processed)
        waiting = {kind: intervals for kind in self.kinds if (intervals := self._pending[kind].below(processed))}
        if not waiting:
            return None
        kind = min(waiting, key=lambda kind: (kind in self._later, self._urgency(waiting[kind])))
        position_bytes = raw_bytes(self.dtype, (1, *kind.shape))
        most = max(1, min(FRAME_BYTES, self._window.frame) // position_bytes)
        start, end = self._choose(waiting[kind], most)
        size = (end - start) * position_bytes
        busy = self._window.in_flight or self._claimed
        room = self._window.room - sum(self._claimed.values())
        if kind in self._later:
            room -= int(_KEPT_FREE * self._window.size)
        if busy and size > room:
            return None
        span = Span(kind, start, end - start, self._epoch)
        self._pending[kind].remove(start, end)
        self._claimed[span] = size
        return span

    def sent(self, span: Span, size: int, now: float) -> bool:
        """A claimed span is sent in a frame with a payload of `size` bytes; False where it is void and must not be
        sent."""
        if self._claimed.pop(span, None) is None:
            return False
        self._flights.append(span)
        self._window.sent(size, now)
        return True

    @property
    def arrived(self) -> int:
        """Frames of this stream that were acknowledged."""
        return self._arrived

    def acknowledge(self, frames: int, now: float) -> None:
        """The client has received `frames` frames on this stream. Raises PeerError where fewer were sent."""
        sent = self._arrived + len(self._flights)
        if frames > sent:
            raise PeerError(f"a StateAck names {frames} frames, but only {sent} were sent")
        while self._arrived < frames:
            self._arrived += 1
            self._flights.popleft()
            self._window.acknowledged(now)

    def has_delivered(self, positions: int) -> bool:
        """Whether the client has acknowledged all state of the first `positions`, and everything else that was sent."""
        waits = self._claimed or self._flights or any(pending.below(positions) for pending in self._pending.values())
        return not waits and (self._seen >= positions or not self.kinds)

    def rewrite(self, keep: int) -> None:
        """A turn begins that keeps `keep` positions. The client drops frames of the earlier turn, so unacknowledged
        frames count as not sent."""
        self._recall()
        self._window.overtake()
        for pending in self._pending.values():
            pending.cut(keep)
        self._seen = min(self._seen, keep)

    def restart(self) -> None:
        """A new stream begins: frames in flight on the old one are lost."""
        self._recall()
        self._flights.clear()
        self._arrived = 0
        self._window = StateWindow()

    def _recall(self) -> None:
        for span in (*self._claimed, *self._flights):
            if span.epoch == self._epoch:
                self._pending[span.kind].add(span.start, span.start + span.count)
        self._claimed.clear()
        self._epoch += 1


def feed_for(wanted: StateRequest, kinds: Sequence[StateKind]) -> StateFeed:
    """The feed of the `kinds` that a client wants."""
    later = [kind for kind in kinds if wanted.later and kind.name == KEY_VALUES]
    return StateFeed(kinds, wanted.dtype, later=later)


def _newest(intervals: Intervals, most: int) -> Interval:
    first, last = intervals[0], intervals[-1]
    if first.start >= FIRST_POSITIONS:
        return Interval(max(last.start, last.end - most), last.end)
    whole = first.end - first.start <= most
    return Interval(first.start, first.end if whole else min(first.start + most, FIRST_POSITIONS))


def _prefix(intervals: Intervals, most: int) -> Interval:
    first = intervals[0]
    return Interval(first.start, min(first.end, first.start + most))


ORDERS: Mapping[str, tuple[Callable[[Intervals], int], Order]] = {
    "newest": (lambda intervals: -intervals[-1].end, _newest),
    "prefix": (lambda intervals: intervals[0].start, _prefix),
}
"""By name: which kind goes first, the least of these numbers, and which adjacent positions, at most so many, of it.
`newest` sends the first few and then goes backwards from the newest; `prefix` ascends."""
