"""The pieces of an answer, and what every parser of answers offers. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token that the target has committed: the bytes that it stands for, its log-probability, and the likeliest
    tokens of its position with theirs. `start` are the characters of the answer before it."""

    spelling: bytes
    logp: float
    top: tuple[tuple[bytes, float], ...]
    start: int


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Some more text. `unverified`: the draft wrote it, and the target has not verified it. `scored`: the tokens that
    have become text since the last piece, where they are asked for."""

    text: str
    unverified: bool = False
    is_reasoning: bool = False
    scored: tuple[ScoredToken, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A whole call of a function; `arguments` is a JSON object as text. It is never made of unverified text."""

    id: str
    name: str
    arguments: str


Piece = TextPiece | ToolCall

NewId = Callable[[], str]
"""Makes the id of a call."""


class AnswerParser(Protocol):
    """Takes an answer's text as it comes. What may be the beginning of a call or of a mark is held back until that is
    decided; together the pieces have all text but marks and calls."""

    def feed(self, text: str) -> Sequence[Piece]:
        """The pieces that some more text completes."""

    def end(self, *, is_cut: bool) -> Sequence[Piece]:
        """What is still held back. An answer that was cut ends in mid-sentence: an incomplete call in it is text."""


class PlainText:
    """A parser that takes everything as content."""

    def feed(self, text: str) -> Sequence[Piece]:
        return [TextPiece(text)] if text else []

    def end(self, *, is_cut: bool) -> Sequence[Piece]:
        return []


def first_begin(text: str, *marks: str) -> int:
    """Where the first of the marks begins, or may begin at the end of the text; the text's length if none does."""
    return min(_begin(text, mark) for mark in marks)


def _begin(text: str, mark: str) -> int:
    start = text.find(mark)
    if start >= 0:
        return start
    lengths = (length for length in range(min(len(mark) - 1, len(text)), 0, -1) if text.endswith(mark[:length]))
    return len(text) - next(lengths, 0)
