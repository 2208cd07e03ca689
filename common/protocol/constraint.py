"""What a constrained answer may consist of, and the interface of what tells which tokens may come next. Pure."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from common.protocol.errors import PeerError
from common.protocol.messages import Constraint, FailureCode


class Grammar(StrEnum):
    """The languages that a constraint may be written in."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark"


class AnswerConstraint(Protocol):
    """The tokens that may follow in one answer: a function of the tokens before alone, which any thread may call."""

    def allowed(self, answer: Sequence[int]) -> NDArray[np.bool_]:
        """Which tokens may follow `answer`, `[vocabulary]`. There is always one: an end token where nothing else may
        come, also behind tokens that the constraint forbids."""
        ...

    def forced(self, answer: Sequence[int], most: int) -> tuple[int, ...]:
        """The tokens behind `answer` that leave no choice, at most `most`, and none behind an end token."""
        ...


Constrain = Callable[[Constraint | None], AnswerConstraint | None]
"""Begins one answer under a constraint; None for None. Raises PeerError for one that cannot be met."""


def no_constraints(constraint: Constraint | None) -> None:
    """A `Constrain` where the library that compiles constraints is not there. Raises PeerError for any."""
    if constraint is not None:
        raise PeerError("constrained answers are not supported here", FailureCode.INVALID)
