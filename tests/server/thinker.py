"""A target without a model: its next token is a hash of everything before it, read back through the slots.

It remembers which token each slot holds, as K/V would, so a slot that is lost, shared or reused too early changes
what it chooses. The draft state of positions is their tokens.
"""

import hashlib
from collections.abc import Sequence

from common.models.segment import Segment
from common.protocol.draft_state import StateKind
from common.protocol.messages import StateRequest
from server.exports import Ask

VOCAB = 50
END = 0

STATE = StateRequest("thoughts", 1)
STATE_KINDS = (StateKind("lsa", (4,)), StateKind("kv", (1, 2, 2)))


def next_token(prefix: Sequence[int]) -> int:
    digest = hashlib.blake2b(repr(list(prefix)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") % VOCAB


def decode(prompt: Sequence[int], count: int, end: int = END) -> list[int]:
    """Plain decoding, up to an end token or `count` tokens."""
    answer: list[int] = []
    while len(answer) < count and end not in answer:
        answer.append(next_token([*prompt, *answer]))
    return answer


class Thinker:
    """A `Chooser` and a `Maker`. Counts the segments of each pass; fails for sequences that begin with `poison`."""

    def __init__(self, poison: int | None = None) -> None:
        self.segments_per_pass: list[int] = []
        self._poison = poison
        self._held: dict[int, int] = {}

    def choose(self, segments: Sequence[Segment]) -> list[list[int] | None]:
        self.segments_per_pass.append(len(segments))
        for segment in segments:
            self._held.update(zip(segment.slots, segment.tokens, strict=True))
        return [self._choose(segment) for segment in segments]

    def make(self, asks: Sequence[Ask]) -> list[bytes | None]:
        return [bytes(self._held[slot] for slot in ask.slots.tolist()) for ask in asks]

    def _choose(self, segment: Segment) -> list[int] | None:
        past = [self._held[slot] for slot in segment.past_slots]
        if [*past, *segment.tokens][0] == self._poison:
            return None
        return [next_token([*past, *self._branch(segment, row)]) for row in segment.wanted]

    def _branch(self, segment: Segment, row: int) -> list[int]:
        tokens: list[int] = []
        while row >= 0:
            tokens.append(self._held[segment.slots[row]])
            row = segment.parents[row]
        return tokens[::-1]
