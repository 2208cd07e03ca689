"""Calls as Hermes and Qwen write them: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`. Pure.

Source: the function calling format of Hermes 2 Pro (Nous Research), in the chat templates of Qwen 2.5 and 3.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from client.endpoint.answer_parsers.calls import (
    NO_CALL,
    NO_OBJECT,
    Mark,
    Opening,
    ReadCalls,
    as_call,
    object_rules,
)
from client.endpoint.answer_parsers.growing_json import ReadJson
from client.endpoint.answer_parsers.pieces import first_begin

_BEGIN, _END = "<tool_call>", "</tool_call>"


def _rest(mark: Mark) -> str:
    return f'"\\n" call "\\n" {mark(_END)}'


class Hermes:
    name = "hermes"
    marks = (_BEGIN, _END)
    opening = Opening(_BEGIN, _rest)

    def begin(self, text: str, *, is_first: bool) -> int:
        return first_begin(text, _BEGIN)

    def grammar(self, functions: Sequence[Mapping[str, Any]], mark: Mark, *, several: bool) -> str:
        call = f"{mark(_BEGIN)} {_rest(mark)}"
        start = f'start: {call} ("\\n" {call})*' if several else f"start: {call}"
        return f"{start}\n{self.rules(functions, mark)}"

    def rules(self, functions: Sequence[Mapping[str, Any]], mark: Mark) -> str:
        return object_rules(functions)

    def read(self, text: str, offered: Collection[str], read_json: ReadJson, *, is_whole: bool) -> ReadCalls | None:
        if not text.startswith(_BEGIN):
            return None
        if NO_OBJECT.match(text, len(_BEGIN)):
            return NO_CALL
        found = read_json(text, len(_BEGIN))
        if found is None:
            return None
        value, end = found
        call = as_call(value)
        rest = text[end:].lstrip()
        is_closed = rest.startswith(_END)
        if call is not None and (is_closed or (is_whole and not rest)):
            return ReadCalls((call,), len(text) - len(rest) + is_closed * len(_END))
        may_be_closed = call is not None and not is_whole and _END.startswith(rest)
        return None if may_be_closed else NO_CALL
