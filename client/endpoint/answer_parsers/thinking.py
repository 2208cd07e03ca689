"""Splits reasoning from the rest of an answer: what stands between `<think>` and `</think>`. Pure.

Blanks at the ends of the reasoning, and line breaks before what follows, belong to the marks.
"""

from collections.abc import Sequence
from enum import Enum, auto

from client.endpoint.answer_parsers.pieces import AnswerParser, Piece, TextPiece, first_begin

BEGIN, END = "<think>", "</think>"


class _State(Enum):
    BEFORE = auto()
    INSIDE = auto()
    BEHIND = auto()
    CONTENT = auto()


class Thinking:
    def __init__(self, content: AnswerParser, *, is_inside: bool):
        """`content` parses what is no reasoning; `is_inside`: the prompt ends with the mark where reasoning begins."""
        self._content = content
        self._state = _State.INSIDE if is_inside else _State.BEFORE
        self._held = ""
        self._has_thought = False

    def feed(self, text: str) -> Sequence[Piece]:
        if self._state is _State.CONTENT:
            return self._content.feed(text)
        self._held += text
        if self._state is _State.BEFORE:
            self._look_for_beginning()
        pieces: list[Piece] = []
        if self._state is _State.INSIDE:
            pieces += self._thoughts()
        if self._state is _State.BEHIND:
            self._held = self._held.lstrip("\n")
        if self._held and self._state in (_State.BEHIND, _State.CONTENT):
            self._state, held, self._held = _State.CONTENT, self._held, ""
            pieces += self._content.feed(held)
        return pieces

    def end(self, *, is_cut: bool) -> Sequence[Piece]:
        held, self._held = self._held, ""
        if self._state is _State.INSIDE:
            thought = held.rstrip()
            return [TextPiece(thought, is_reasoning=True)] if thought else []
        return [*self._content.feed(held), *self._content.end(is_cut=is_cut)]

    def _look_for_beginning(self) -> None:
        start = self._held.lstrip()
        if start.startswith(BEGIN):
            self._state, self._held = _State.INSIDE, start[len(BEGIN) :]
        elif not BEGIN.startswith(start):
            self._state = _State.CONTENT

    def _thoughts(self) -> list[TextPiece]:
        if not self._has_thought:
            self._held = self._held.lstrip()
        end = first_begin(self._held, END)
        thought = self._held[:end].rstrip()
        is_over = self._held.startswith(END, end)
        self._held = self._held[end + len(END) :] if is_over else self._held[len(thought) :]
        self._state = _State.BEHIND if is_over else _State.INSIDE
        self._has_thought |= bool(thought)
        return [TextPiece(thought, is_reasoning=True)] if thought else []
