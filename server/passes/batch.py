"""One pass as data: which sessions take part, with which tokens.

It may not know why they take part, nor how a pass is run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from common.protocol.errors import PeerError
from common.protocol.scheduled_tokens import ScheduledTokens
from server.passes.pass_cost import NO_WORK, PassWork, session_work

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
    def work(self) -> PassWork:
        return sum((session_work(len(each), each.start) for each in self.scheduled), NO_WORK)
