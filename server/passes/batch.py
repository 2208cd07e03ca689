"""One pass as data: each session's work turned into the segment that the target computes.

It may not know who takes part and why, nor how a pass is run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

from common.models.segment import Segment
from common.protocol.errors import PeerError
from common.protocol.rules.verify_input import VerifyInput
from common.protocol.scheduled_tokens import ScheduledTokens
from server.passes.sequence import HeldSequence

Owner = TypeVar("Owner")

PassOutcome = Sequence[int] | PeerError
"""The tokens that a pass commits for one session, or what its person is told of a pass that failed."""


@dataclass(frozen=True, slots=True)
class Case:
    """What the target computes for one session, and what it decides: nothing where the pass ends above the root."""

    segment: Segment
    verify_input: VerifyInput | None


@dataclass(frozen=True, slots=True)
class Part(Generic[Owner]):
    """One session's part of a pass: its work, the slots taken for it (chain, then nodes), and its segment."""

    owner: Owner
    scheduled: ScheduledTokens
    slots: Sequence[int]
    segment: Segment


@dataclass(frozen=True, slots=True)
class Batch(Generic[Owner]):
    """A planned pass, and when it was planned."""

    parts: Sequence[Part[Owner]]
    began: float

    @property
    def tokens(self) -> int:
        """Packed tokens of the pass."""
        return sum(len(part.scheduled) for part in self.parts)

    @property
    def cases(self) -> list[Case]:
        return [Case(part.segment, part.scheduled.verify_input) for part in self.parts]


def make_segment(scheduled: ScheduledTokens, sequence: HeldSequence, slots: Sequence[int]) -> Segment:
    """The chain, then the nodes below its end. Wanted are the rows of the root and of every node, in that order."""
    root = len(scheduled.chain) - 1
    places = {node: root + 1 + index for index, node in enumerate(scheduled.nodes)}
    parents = [root if node.parent is None else places.get(node.parent, root) for node in scheduled.nodes]
    return Segment(
        tokens=[*scheduled.chain, *(node.token for node in scheduled.nodes)],
        slots=slots,
        parents=list(chain(range(-1, root), parents)),
        past_slots=sequence.slots,
        wanted=range(root, len(scheduled)) if scheduled.reaches_root else (),
    )


def computed_tokens(part: Part[Owner], committed: Sequence[int]) -> list[int]:
    """The tokens of the sequence that the pass computed: the chain, then what its nodes carried of `committed`.

    Read off the segment, so that it does not repeat a mistake in what the session says of its nodes.
    """
    rows = {branch: row for row, branch in enumerate(zip(part.segment.parents, part.segment.tokens, strict=True))}
    row = len(part.scheduled.chain) - 1
    computed = list(part.scheduled.chain)
    for token in committed:
        if (row, token) not in rows:
            break
        row = rows[row, token]
        computed.append(token)
    return computed
