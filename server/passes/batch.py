"""One pass as data: which sessions take part, with which tokens.

It may not know why they take part, nor how a pass is run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from common.protocol.errors import PeerError
from common.protocol.scheduled_tokens import ScheduledTokens

Owner = TypeVar("Owner")

PassOutcome = Sequence[int] | PeerError
"""The tokens that a pass commits for one session, or the error that its client gets."""


@dataclass(frozen=True, slots=True)
class PlannedPass(Generic[Owner]):
    """A planned pass: the tokens of each owner, and when it was planned, in seconds."""

    owners: list[Owner]
    scheduled: list[ScheduledTokens]
    began: float

    @property
    def tokens(self) -> int:
        """Packed tokens of the pass."""
        return sum(map(len, self.scheduled))
