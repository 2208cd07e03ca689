"""Answers by transformers' own response templates give what transformers gives, streamed, and lose no text."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from transformers.utils.chat_parsing import ResponseParser, parse_response

from client.endpoint.answer_parsers.pieces import TextPiece, ToolCall
from client.endpoint.answer_parsers.response_template import ResponseTemplate
from common.protocol.errors import MisuseError
from tests.client.endpoint.answer_parsers.feeding import FEW, SIZES, call, parsed

TEMPLATE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|turn|>assistant\n",
    "fields": {
        "reasoning_content": {"open": "<think>", "close": "</think>", "content": "text"},
        "tool_calls": {
            "open_pattern": r"\s*<call>",
            "close": "</call>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"\s*<\|end\|>", "content": "text"},
    },
}
BLANKS_BEHIND = {
    **TEMPLATE,
    "fields": {
        "reasoning_content": {"open": "<think>", "close_pattern": r"</think>\s*", "content": "text"},
        "tool_calls": {"open": "<call>", "close_pattern": r"</call>\s*", "repeats": True, "content": "json"},
        "content": {"close_pattern": r"\s*<\|end\|>", "content": "text"},
    },
}
"""Its marks end where what follows tells that they do."""
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"properties": {"a": {"type": "integer"}}}}}]
PROMPT = "<|turn|>user\nAdd.<|end|><|turn|>assistant\n"
CALL = '<call>{"name": "add", "arguments": {"a": 1}}</call>'
MADE = call("add", '{"a": 1}')


def parser(prompt: str = PROMPT, tools=TOOLS, template=TEMPLATE) -> ResponseTemplate:
    return ResponseTemplate(template, prompt, tools, lambda: "id")


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        (PROMPT, "Hello there"),
        (PROMPT, f"<think>I see</think>Yes.\n{CALL}\n{CALL}"),
        (PROMPT + "<think>", f"I see</think>{CALL}"),
    ],
)
@given(sizes=SIZES)
@FEW
def test_its_pieces_are_transformers_message(prompt, text, sizes):
    message = parse_response(text, TEMPLATE, prefix=prompt, tools=TOOLS)
    pieces = parsed(parser(prompt), text, sizes)
    for name, is_reasoning in (("content", False), ("reasoning_content", True)):
        texts = [each.text for each in pieces if isinstance(each, TextPiece) and each.is_reasoning is is_reasoning]
        assert "".join(texts).strip() == message.get(name, "")
    made = [(each.name, json.loads(each.arguments)) for each in pieces if isinstance(each, ToolCall)]
    calls = [each["function"] for each in message.get("tool_calls", ())]
    assert made == [(each["name"], each["arguments"]) for each in calls]


@pytest.mark.parametrize("text", ["<call>no JSON</call> and more", '<call>["add"]</call>', '<call>{"name": 3}</call>'])
@pytest.mark.parametrize("is_cut", [False, True])
def test_what_is_no_call_is_text(text, is_cut):
    assert parsed(parser(), text, is_cut=is_cut) == [TextPiece(text)]


@given(
    pieces=st.lists(st.sampled_from(["<", " ", "x", '["add"]', "<call>", "</call>", "<think>"]), max_size=12),
    template=st.sampled_from([TEMPLATE, BLANKS_BEHIND]),
    is_cut=st.booleans(),
)
@example(pieces=["<", "<call>", "x", "</call>"], template=TEMPLATE, is_cut=False)
@example(pieces=["<call>", '["add"]', "</call>", " ", "<", "x"], template=BLANKS_BEHIND, is_cut=False)
def test_text_without_a_call_is_whole_but_for_the_mark_of_a_thought(pieces, template, is_cut):
    text = "".join(pieces)
    found = parsed(parser(template=template), text, is_cut=is_cut)
    assert "".join(each.text for each in found) in (text, text.replace("<think>", "", 1))


@pytest.mark.parametrize("template", [TEMPLATE, BLANKS_BEHIND], ids=["at once", "blanks behind"])
@pytest.mark.parametrize("begun", ["<", "a <", "<<"])
def test_what_may_begin_a_mark_behind_another_is_not_lost(template, begun):
    text = f"{begun}<call>no JSON</call>"
    assert parsed(parser(template=template), f"<think>So</think>{text}") == [
        TextPiece("So", is_reasoning=True),
        TextPiece(text),
    ]


def test_transformers_parser_tells_what_it_has_not_read():
    """By what is private to it: where that changes, text would be lost or doubled."""
    reading = ResponseParser(TEMPLATE, PROMPT)
    for text, unread in (("So", ""), (" ", " "), ("<ca", " <ca"), ("ke", ""), (" <call>", " <call>"), ("1", "")):
        reading.feed(text)
        assert reading._buffer[reading._pos :] == unread


def test_a_call_that_is_cut_is_text():
    assert parsed(parser(), f"Yes.{CALL}\n{CALL[:-4]}", is_cut=True) == [
        TextPiece("Yes."),
        MADE,
        TextPiece(f"\n{CALL[:-4]}"),
    ]


def test_without_tools_a_call_is_text():
    assert parsed(parser(tools=()), CALL) == [TextPiece(CALL)]


def test_a_template_that_is_none_is_refused():
    with pytest.raises(MisuseError, match="the target's response template is not understood"):
        ResponseTemplate({"fields": 3}, PROMPT, TOOLS, lambda: "id")
