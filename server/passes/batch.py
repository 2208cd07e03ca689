"""One pass as data: which sessions take part, with which tokens.

It may not know why they take part, nor how a pass is run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from common.protocol.errors import PeerError
from common.protocol.logprobs import TokenLogprobs
from common.protocol.scheduled_tokens import ScheduledTokens
from common.protocol.views import TargetChoices
from server.passes.pass_cost import PassWork, sessions_work

Owner = TypeVar("Owner")


@dataclass(frozen=True, slots=True)
class ChosenTokens:
    """What a pass commits for one session. `logprobs` has one entry for each token if the session asks for them, else
    none. `choices` are the likeliest tokens behind all its nodes, for drafters here."""

    tokens: Sequence[int]
    logprobs: Sequence[TokenLogprobs] = ()
    choices: TargetChoices | None = field(default=None, compare=False)


PassOutcome = ChosenTokens | PeerError
"""What a pass commits for one session, or the error that its client gets."""


@dataclass(frozen=True, slots=True)
class PlannedPass(Generic[Owner]):
    """A planned pass: the tokens of each owner, and when it was planned, in seconds."""

    owners: list[Owner]
    scheduled: list[ScheduledTokens]
    began: float

    @property
    def work(self) -> PassWork:
        return sessions_work((len(each), each.start) for each in self.scheduled)
