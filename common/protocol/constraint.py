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


_MAX_CHARACTERS = {Grammar.JSON_SCHEMA: 1 << 15, Grammar.REGEX: 1 << 15, Grammar.LARK: 12 << 10}
"""Long chains of references make the library that compiles them run out of stack, which ends the process: from 2,500
references or rules on, which take at least 27 and 8 characters each."""


_ANNOTATIONS = frozenset(("$comment", "title", "description", "default", "examples"))
_OF_VALUES = frozenset(("const", "enum"))
_OF_NAMES = frozenset(("properties", "patternProperties", "$defs", "definitions"))
"""Keywords of a schema that constrain nothing, that hold values, and that hold schemas by names of the author's."""

_MOST_LEVELS = 128
"""Of a schema that is searched for annotations; llguidance refuses those that have more."""


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


def check_length(constraint: Constraint) -> None:
    """Raises PeerError for one that is too long to be compiled."""
    most = _MAX_CHARACTERS[Grammar(constraint.grammar)]
    if len(constraint.text) > most:
        raise PeerError(
            f"the constraint has {len(constraint.text)} characters, more than the {most} allowed; shorten it",
            FailureCode.INVALID,
        )


def in_lark(rule: str, schema: Mapping[str, Any]) -> str:
    """A rule of a grammar in Lark's notation: JSON that fits a schema. Annotations are left out, because the length of
    a grammar is bounded."""
    return f"{rule}: %json {json.dumps({**_without_annotations(schema), 'x-guidance': ONE_WAY_OF_JSON})}"


def _without_annotations(schema: Any, levels: int = _MOST_LEVELS) -> Any:
    if not levels:
        return schema
    if isinstance(schema, list):
        return [_without_annotations(each, levels - 1) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    bare: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _OF_VALUES:
            bare[keyword] = value
        elif keyword in _OF_NAMES and isinstance(value, Mapping):
            bare[keyword] = {name: _without_annotations(each, levels - 1) for name, each in value.items()}
        elif keyword not in _ANNOTATIONS:
            bare[keyword] = _without_annotations(value, levels - 1)
    return bare
