"""A channel for `common.rounds` on which draft state arrives late, in parts, twice or never."""

import random
from collections.abc import Sequence

from common.codec import decode, encode
from common.protocol.messages import State


class LossyChannel:
    """Loses each position with probability `loss`; delivers the rest in spans, every other time a round late, newest
    first, and one span twice."""

    def __init__(self, seed: int, loss: float = 0.4):
        self.delivered = 0
        self.lost = 0
        self._draw = random.Random(seed)
        self._loss = loss
        self._late: list[State] = []

    def deliver(self, frames: Sequence[State], processed: int) -> Sequence[State]:
        spans = [span for frame in frames for span in self._spans(frame)]
        now, self._late = [*self._late, *spans], []
        if self._draw.random() < 0.5:
            self._late, now = now, []
        now = sorted(now, key=lambda state: -state.start)
        self.delivered += len(now)
        return [*now, *now[:1]]

    def _spans(self, frame: State) -> list[State]:
        values = decode(frame.payload, frame.dtype, frame.shape)
        kept = [index for index in range(frame.count) if self._draw.random() >= self._loss]
        self.lost += frame.count - len(kept)
        return [
            State(
                frame.turn,
                frame.start + index,
                1,
                frame.kind,
                frame.dtype,
                (1, *frame.shape[1:]),
                encode(values[index : index + 1], frame.dtype),
            )
            for index in kept
        ]
