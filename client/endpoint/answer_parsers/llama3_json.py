"""Calls as Llama 3.1 and later write them: the answer is `{"name": ..., "parameters": {...}}`, several of them with
semicolons between, or such objects follow `<|python_tag|>`. Pure.

An answer without the mark that is such an object counts as a call only of a function that was offered.
Source: Meta's prompt format for JSON based tool calling, in the models' chat templates.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from client.endpoint.answer_parsers.calls import NO_CALL, Call, Mark, ReadCalls, as_call, object_rules
from client.endpoint.answer_parsers.growing_json import ReadJson
from client.endpoint.answer_parsers.pieces import first_begin

_MARK = "<|python_tag|>"


class Llama3Json:
    name = "llama3-json"
    marks = (_MARK,)
    opening = None

    def begin(self, text: str, *, is_first: bool) -> int:
        start = len(text) - len(text.lstrip())
        if is_first and text.startswith(("{", ";"), start):
            return start
        return first_begin(text, _MARK)

    def grammar(self, functions: Sequence[Mapping[str, Any]], mark: Mark, *, several: bool) -> str:
        start = 'start: call ("; " call)*' if several else "start: call"
        return f"{start}\n{self.rules(functions, mark)}"

    def rules(self, functions: Sequence[Mapping[str, Any]], mark: Mark) -> str:
        return object_rules(functions, "parameters")

    def read(self, text: str, offered: Collection[str], read_json: ReadJson, *, is_whole: bool) -> ReadCalls | None:
        start = 0
        for mark in (_MARK, ";"):
            if text.startswith(mark):
                start = len(mark)
        body = text[start:].lstrip()
        if body and not body.startswith("{") and not _MARK.startswith(text):
            return NO_CALL
        found = read_json(text, start)
        if found is None:
            return None
        value, end = found
        call = _call(value)
        is_meant = text.startswith(_MARK) or (call is not None and call.name in offered)
        return ReadCalls((call,), end) if call is not None and is_meant else NO_CALL


def _call(value: object) -> Call | None:
    has_arguments = isinstance(value, dict) and ("parameters" in value or "arguments" in value)
    return as_call(value) if has_arguments else None
