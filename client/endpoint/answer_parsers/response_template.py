"""Answers by transformers' own description of them: the `response_template` that a checkpoint's tokenizer has.

Imports transformers, which takes a second, once such an answer begins. It may not know which checkpoint that is.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from client.endpoint.answer_parsers.calls import Call, make_call
from client.endpoint.answer_parsers.pieces import NewId, Piece, TextPiece, ToolCall
from common.protocol.errors import MisuseError
from common.transformers_import import IMPORTING

_REASONING = ("reasoning_content", "reasoning", "thinking")
_CALLS = "tool_calls"


class ResponseTemplate:
    def __init__(self, template: Any, prompt: str, tools: Sequence[Mapping[str, Any]], new_id: NewId):
        """`prompt` is the text that the answer follows, with its special tokens; calls are looked for if there are
        tools.

        Raises MisuseError for a template that transformers does not understand.
        """
        with IMPORTING:
            from transformers.utils.chat_parsing import ResponseParser

        try:
            self._parser = ResponseParser(template, prompt, tools=[dict(tool) for tool in tools])
        except Exception as error:  # a server has written the template
            raise MisuseError(f"the target's response template is not understood: {error}") from error
        self._finds_calls = bool(tools)
        self._new_id = new_id
        self._held = ""  # fed, and not yet part of any piece or mark
        self._is_in_call = False
        self._is_broken = False

    def feed(self, text: str) -> Sequence[Piece]:
        pieces: list[Piece] = []
        # By characters, each of which ends one mark at most: events do not say of which text they are made.
        for character in text:
            self._held += character
            pieces += self._events(character)
        return _joined(pieces)

    def end(self, *, is_cut: bool) -> Sequence[Piece]:
        pieces: list[Piece] = []
        if not (self._is_broken or (self._is_in_call and is_cut)):
            pieces += self._events(None)
        rest, self._held = self._held, ""
        return _joined([*pieces, TextPiece(rest)] if rest and (self._is_in_call or self._is_broken) else pieces)

    def _events(self, character: str | None) -> list[Piece]:
        """The pieces that one more character completes, or the end of the text (None)."""
        if self._is_broken:
            return self._taken_as_text()
        try:
            events = self._parser.finalize()[1] if character is None else self._parser.feed(character)
        except Exception:  # a call that is no JSON, or whatever else a model has written
            self._is_broken = True
            return self._taken_as_text()
        pieces: list[Piece] = []
        unread = self._unread
        for index, event in enumerate(events):
            after = unread + sum(len(each.get("text", "")) for each in events[index + 1 :])
            pieces += self._piece(event, after)
        if events and not self._is_in_call:
            self._drop_up_to(unread)  # marks, too
        return pieces

    @property
    def _unread(self) -> int:
        """The length of what transformers has been fed and told nothing of: it may be the beginning of a mark."""
        return len(self._parser._buffer) - self._parser._pos

    def _piece(self, event: Mapping[str, Any], after: int) -> list[Piece]:
        """`after`: so many characters follow what the event is about."""
        kind, field = event["type"], event["field"]
        if field == _CALLS:
            self._is_in_call = kind != "region_close"
            return self._calls(event["value"], after) if kind == "region_close" else []
        if kind != "region_chunk":
            return []
        self._held = self._held.removeprefix(event["text"])  # after a mark it is no prefix, and goes with the mark
        return [TextPiece(event["text"], is_reasoning=field in _REASONING)]

    def _calls(self, value: Any, after: int) -> list[Piece]:
        raw = self._drop_up_to(after)
        calls = [_call(each) for each in (value if isinstance(value, list) else [value])]
        known = [call for call in calls if call is not None]
        if not self._finds_calls or len(known) < len(calls):
            return [TextPiece(raw)] if raw else []
        return [ToolCall(self._new_id(), call.name, call.arguments) for call in known]

    def _drop_up_to(self, after: int) -> str:
        """Keeps the last `after` characters alone, and returns the others."""
        border = max(0, len(self._held) - after)  # the prompt's end may be unread, too
        dropped, self._held = self._held[:border], self._held[border:]
        return dropped

    def _taken_as_text(self) -> list[Piece]:
        text, self._held = self._held, ""
        return [TextPiece(text)] if text else []


def _call(value: Any) -> Call | None:
    function = value.get("function", value) if isinstance(value, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return None
    arguments = function.get("arguments", {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return None
    return make_call(function["name"], arguments)


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Neighbouring texts of one kind as one."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, TextPiece) and isinstance(last, TextPiece) and piece.is_reasoning == last.is_reasoning:
            joined[-1] = TextPiece(last.text + piece.text, is_reasoning=piece.is_reasoning)
        else:
            joined.append(piece)
    return joined
