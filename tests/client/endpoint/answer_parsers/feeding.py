"""Feeds answers to parsers in pieces of any size."""

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st

from client.endpoint.answer_parsers.pieces import AnswerParser, Piece, TextPiece, ToolCall

SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=40)
"""Lengths of consecutive pieces, which repeat."""


FEW = settings(max_examples=15)
"""For tests of one text, whose splits alone vary."""


def parsed(parser: AnswerParser, text: str, sizes: Sequence[int] = (1,), *, is_cut: bool = False) -> list[Piece]:
    pieces: list[Piece] = []
    position = index = 0
    while position < len(text):
        size = sizes[index % len(sizes)]
        pieces += parser.feed(text[position : position + size])
        position, index = position + size, index + 1
    return joined([*pieces, *parser.end(is_cut=is_cut)])


def joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Neighbouring texts of a kind as one, so that it does not matter in which pieces they came."""
    whole: list[Piece] = []
    for piece in pieces:
        last = whole[-1] if whole else None
        if isinstance(piece, TextPiece) and isinstance(last, TextPiece) and piece.is_reasoning == last.is_reasoning:
            whole[-1] = TextPiece(last.text + piece.text, is_reasoning=piece.is_reasoning)
        else:
            whole.append(piece)
    return whole


def call(name: str, arguments: str) -> ToolCall:
    return ToolCall("id", name, arguments)
