"""A target without a model: its next token is a hash of everything before it, read back through the slots.

It remembers which token each slot holds, as K/V would, so a slot that is lost, shared or reused too early changes
what it chooses. The draft state of positions is their tokens.
"""

import hashlib
from collections.abc import Sequence

from common.models.segment import Segment
from common.protocol.draft_state import StateKind
from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, StateRequest
from server.passes.batch import Case, PassOutcome
from server.passes.state_export import ExportRequest
from tests.common.protocol.rules.rows import decide

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
    """A `Decider` and a `Maker`. Counts the cases of each pass; fails for sequences that begin with `poison`."""

    def __init__(self, poison: int | None = None) -> None:
        self.cases_per_pass: list[int] = []
        self._poison = poison
        self._held: dict[int, int] = {}

    def decide(self, cases: Sequence[Case]) -> list[PassOutcome]:
        self.cases_per_pass.append(len(cases))
        for case in cases:
            self._held.update(zip(case.segment.slots, case.segment.tokens, strict=True))
        return [self._decide(case) for case in cases]

    def make(self, requests: Sequence[ExportRequest]) -> list[bytes | None]:
        return [bytes(self._held[slot] for slot in request.slots.tolist()) for request in requests]

    def _decide(self, case: Case) -> PassOutcome:
        segment = case.segment
        past = [self._held[slot] for slot in segment.past_slots]
        if [*past, *segment.tokens][0] == self._poison:
            return PeerError("the thinker cannot think of this", FailureCode.INTERNAL)
        return decide(case.verify_input, [next_token([*past, *self._branch(segment, row)]) for row in segment.wanted])

    def _branch(self, segment: Segment, row: int) -> list[int]:
        tokens: list[int] = []
        while row >= 0:
            tokens.append(self._held[segment.slots[row]])
            row = segment.parents[row]
        return tokens[::-1]
