"""What a constrained answer may consist of, and the interface of what tells which tokens may come next. Pure."""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from common.protocol.errors import PeerError
from common.protocol.messages import Constraint, FailureCode


class Grammar(StrEnum):
    """The languages that a constraint may be written in."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark"


ONE_WAY_OF_JSON: Mapping[str, Any] = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}
"""One way to write a value, as Python's json does and as models usually do, in llguidance's options: then brackets,
keys and separators leave no choice, and nothing can be filled with blanks for ever."""


class AnswerConstraint(Protocol):
    """The tokens that may follow in one answer: a function of the tokens before alone, which any thread may call."""

    def allowed(self, answer: Sequence[int]) -> NDArray[np.bool_]:
        """Which tokens may follow `answer`, `[vocabulary]`. There is always one: an end token where nothing else may
        come, also behind tokens that the constraint forbids. Raises PeerError where that cannot be told."""
        ...

    def forced(self, answer: Sequence[int], most: int) -> tuple[int, ...]:
        """The tokens behind `answer` that leave no choice, at most `most`, and none behind an end token. Raises as
        `allowed` does."""
        ...


Constrain = Callable[[Constraint | None], AnswerConstraint | None]
"""Begins one answer under a constraint; None for None. Raises PeerError for one that cannot be met."""


def no_constraints(constraint: Constraint | None) -> None:
    """A `Constrain` where the library that compiles constraints is not there. Raises PeerError for any."""
    if constraint is not None:
        raise PeerError("constrained answers are not supported here", FailureCode.INVALID)


def in_lark(rule: str, schema: Mapping[str, Any]) -> str:
    """A rule of a grammar in Lark's notation: JSON that fits a schema."""
    return f"{rule}: %json {json.dumps({**schema, 'x-guidance': ONE_WAY_OF_JSON})}"
