"""Reasoning is what stands between its marks, however the text comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.endpoint.answer_parsers.calls import CallParser
from client.endpoint.answer_parsers.hermes import Hermes
from client.endpoint.answer_parsers.pieces import PlainText, TextPiece
from client.endpoint.answer_parsers.thinking import Thinking
from tests.client.endpoint.answer_parsers.feeding import FEW, SIZES, call, parsed


def thought(text: str) -> TextPiece:
    return TextPiece(text, is_reasoning=True)


@pytest.mark.parametrize(
    ("is_inside", "text", "pieces"),
    [
        (False, "<think>\nI see </thin </think>\n\nYes. <think>", [thought("I see </thin"), TextPiece("Yes. <think>")]),
        (False, "\n<think></think>\nYes", [TextPiece("Yes")]),
        (False, "Yes, <think>no</think>", [TextPiece("Yes, <think>no</think>")]),
        (False, "<thinking", [TextPiece("<thinking")]),
        (False, "<thi", [TextPiece("<thi")]),
        (False, " ", [TextPiece(" ")]),
        (False, "", []),
        (True, "I see</think>Yes", [thought("I see"), TextPiece("Yes")]),
        (True, "I see</thi", [thought("I see</thi")]),
        (True, "a\n\nb\n", [thought("a\n\nb")]),
        (True, "a</think>\n", [thought("a")]),
    ],
)
@given(sizes=SIZES, is_cut=st.booleans())
@FEW
def test_reasoning_is_split_from_content(is_inside, text, pieces, sizes, is_cut):
    assert parsed(Thinking(PlainText(), is_inside=is_inside), text, sizes, is_cut=is_cut) == pieces


@given(SIZES)
@FEW
def test_calls_are_found_behind_reasoning_and_not_within(sizes):
    one = '<tool_call>{"name": "look"}</tool_call>'
    parser = Thinking(CallParser(Hermes(), {"look"}, lambda: "id"), is_inside=True)
    assert parsed(parser, f"{one}</think>\n{one}", sizes) == [thought(one), call("look", "{}")]
