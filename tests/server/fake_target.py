"""A target without a model: its next token is a hash of everything before it, read back through the slots.

It remembers which token each slot holds, as K/V would, so a slot that is lost, shared or reused too early changes
what it chooses. The draft state of positions is their tokens.
"""

import hashlib
from collections.abc import Sequence

from common.protocol.draft_state import StateKind
from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, StateRequest
from common.protocol.scheduled_tokens import ScheduledTokens
from server.passes.batch import ChosenTokens, PassOutcome
from server.passes.state_export import ExportRequest
from server.passes.state_rows import StateRows
from tests.common.protocol.rules.rows import choices_of, decide

VOCAB = 50
END = 0
_CAPACITY = 65_536
"""Slots, as many as any test has."""

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


class FakeTarget:
    """A `Verifier` and an `ExportMaker`. Records the number of sessions of each pass; fails for sequences that begin
    with `poison`."""

    def __init__(self, poison: int | None = None) -> None:
        self.sessions_per_pass: list[int] = []
        self._poison = poison
        self._held: dict[int, int] = {}
        self._rows: dict[str, StateRows] = {}
        self.states_made = 0

    def verify(self, scheduled: Sequence[ScheduledTokens]) -> list[PassOutcome]:
        self.sessions_per_pass.append(len(scheduled))
        for each in scheduled:
            self._held.update(zip(each.slots, map(int, each.tokens), strict=True))
        outcomes = [self._verify(each) for each in scheduled]
        for each, outcome in zip(scheduled, outcomes, strict=True):
            if not isinstance(outcome, PeerError):
                self._move_path(each, outcome.tokens)
        return outcomes

    def make(self, requests: Sequence[ExportRequest]) -> list[bytes | None]:
        return [self._make(request) for request in requests]

    @property
    def cached_bytes(self) -> int:
        return sum(rows.nbytes for rows in self._rows.values())

    def _make(self, request: ExportRequest) -> bytes:
        """What is cached is not read again, as `StateMaker` does."""
        kept = self._rows.setdefault(request.kind, StateRows(_CAPACITY, 1))
        lacks, rows = kept.lacks(request), kept.read(request)
        rows[lacks, 0] = [self._held[slot] for slot in request.slots[lacks].tolist()]
        self.states_made += int(lacks.sum())
        kept.keep(request, lacks, rows)
        return rows.tobytes()

    def _verify(self, scheduled: ScheduledTokens) -> PassOutcome:
        past = [self._held[slot] for slot in scheduled.past_slots]
        if [*past, *scheduled.tokens][0] == self._poison:
            return PeerError("the fake target fails here", FailureCode.INTERNAL)
        choices = [next_token([*past, *self._branch(scheduled, row)]) for row in scheduled.wanted]
        target_choices = None if scheduled.verify_input is None else choices_of(scheduled.verify_input, choices)
        return ChosenTokens(decide(scheduled.verify_input, choices), choices=target_choices)

    def _move_path(self, scheduled: ScheduledTokens, tokens: Sequence[int]) -> None:
        behind_chain = scheduled.slots[len(scheduled.chain) :]
        moved = [self._held[behind_chain[index]] for index in scheduled.path(tokens)]
        self._held.update(zip(behind_chain, moved, strict=False))

    def _branch(self, scheduled: ScheduledTokens, row: int) -> list[int]:
        tokens: list[int] = []
        while row >= 0:
            tokens.append(self._held[scheduled.slots[row]])
            row = scheduled.parents[row]
        return tokens[::-1]
