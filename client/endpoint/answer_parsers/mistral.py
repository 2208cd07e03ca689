"""Calls as Mistral's models write them: `[TOOL_CALLS]` and a list of objects with a name and arguments, or, since
version 11 of their tokenizers, `[TOOL_CALLS]name[ARGS]{...}` for each call, `[CALL_ID]id` behind the name or not. Pure.

Source: the instruct tokenizers of mistral-common.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from client.endpoint.answer_parsers.calls import (
    NO_CALL,
    NO_OBJECT,
    Mark,
    Opening,
    ReadCalls,
    as_call,
    call_rules,
    make_call,
    object_rules,
)
from client.endpoint.answer_parsers.growing_json import ReadJson
from client.endpoint.answer_parsers.pieces import first_begin

_BEGIN, _ID, _ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"

_ONE_IN_A_LIST = '"[" call "]"'

_NAMED = re.compile(r"\s*([\w.-]+)(?:\[CALL_ID\]\w+)?\[ARGS\]")
_LISTED = re.compile(r"\s*(\[\s*)?({|\Z)")


def _begun(mark: str) -> str:
    """A pattern for a mark of which the end may be missing."""
    return "|".join(re.escape(mark[:length]) for length in range(len(mark) + 1))


_BEGUN = re.compile(rf"\s*([\w.-]+({_begun(_ID)}|(\[CALL_ID\]\w+)?({_begun(_ARGUMENTS)})))?")
"""What may become `_NAMED` with more text."""


def _names_first(mark: Mark) -> bool:
    """Whether the model writes `name[ARGS]{...}`: those that do have a token for that mark."""
    return mark(_ARGUMENTS) != json.dumps(_ARGUMENTS)


def _rest(mark: Mark) -> str:
    return "call" if _names_first(mark) else '"[" call (", " call)* "]"'


class Mistral:
    name = "mistral"
    marks = (_BEGIN, _ID, _ARGUMENTS)
    opening = Opening(_BEGIN, _rest)

    def begin(self, text: str, *, is_first: bool) -> int:
        return first_begin(text, _BEGIN)

    def grammar(self, functions: Sequence[Mapping[str, Any]], mark: Mark, *, several: bool) -> str:
        if _names_first(mark):
            start = f"({mark(_BEGIN)} call){'+' if several else ''}"
        else:
            start = f"{mark(_BEGIN)} {_rest(mark) if several else _ONE_IN_A_LIST}"
        return f"start: {start}\n{self.rules(functions, mark)}"

    def rules(self, functions: Sequence[Mapping[str, Any]], mark: Mark) -> str:
        if not _names_first(mark):
            return object_rules(functions)
        return call_rules(functions, lambda name: f"{json.dumps(name)} {mark(_ARGUMENTS)}")

    def read(self, text: str, offered: Collection[str], read_json: ReadJson, *, is_whole: bool) -> ReadCalls | None:
        if not text.startswith(_BEGIN):
            return None
        named = _NAMED.match(text, len(_BEGIN))
        if named is None and _LISTED.match(text, len(_BEGIN)) is None:
            # A name may begin as a JSON number or literal does.
            return None if _BEGUN.fullmatch(text, len(_BEGIN)) else NO_CALL
        if named is not None and NO_OBJECT.match(text, named.end()):
            return NO_CALL
        found = read_json(text, len(_BEGIN) if named is None else named.end())
        if found is None:
            return None
        value, end = found
        if named is not None:
            calls = [make_call(named[1], value)]
        else:
            calls = [as_call(each) for each in (value if isinstance(value, list) else [value])]
        known = tuple(call for call in calls if call is not None)
        return ReadCalls(known, end) if known and len(known) == len(calls) else NO_CALL
