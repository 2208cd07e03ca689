"""Answers as OpenAI's own types read them."""

from dataclasses import replace

import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from client.endpoint.answer_parsers.pieces import ScoredToken, TextPiece, ToolCall
from client.endpoint.openai_requests import RequestKind
from client.endpoint.openai_responses import FinishedAnswer, ResponseBuilder

HELLO = (TextPiece("Hel"), TextPiece("lo"))
WRITTEN = FinishedAnswer(HELLO, "stop", 4)
ALONE = FinishedAnswer(HELLO, "length", 4, unverified=2, details={"private": False})
CALLED = FinishedAnswer(
    (
        TextPiece("I should", is_reasoning=True),
        ToolCall("call_1", "add", '{"a": 1}'),
        ToolCall("call_2", "look", "{}"),
    ),
    "tool_calls",
    9,
)


def builder(kind: RequestKind, *echoes: str) -> ResponseBuilder:
    return ResponseBuilder(kind, "id", 17, "outrider", "target", "draft", 3, echoes or ("",))


def stream(kind: RequestKind, written: FinishedAnswer, *, include_usage: bool) -> list[dict]:
    names = builder(kind)
    chunks = [*names.opening(), *names.piece(0, TextPiece("Hel"), 0)]
    chunks += names.piece(0, TextPiece("lo", unverified=written.unverified > 0), 0)
    chunks.append(names.closing(0, written))
    return [*chunks, names.usage([written])] if include_usage else chunks


@pytest.mark.parametrize("written", [WRITTEN, ALONE])
def test_a_whole_answer_is_what_openais_clients_expect(written):
    chat = ChatCompletion.model_validate(builder(RequestKind.CHAT).whole([written]), strict=True)
    assert chat.choices[0].message.content == "Hello"
    text = Completion.model_validate(builder(RequestKind.COMPLETION).whole([written]), strict=True)
    assert text.choices[0].text == "Hello"
    for answer in (chat, text):
        assert answer.choices[0].finish_reason == written.reason
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (3, 4, 7)


@pytest.mark.parametrize("include_usage", [False, True])
def test_chunks_are_what_openais_clients_expect(include_usage):
    chat = [
        ChatCompletionChunk.model_validate(each, strict=True)
        for each in stream(RequestKind.CHAT, WRITTEN, include_usage=include_usage)
    ]
    assert chat[0].choices[0].delta.role == "assistant"
    assert "".join(each.choices[0].delta.content or "" for each in chat if each.choices) == "Hello"
    assert [each.usage.total_tokens for each in chat if each.usage] == [7] * include_usage
    text = stream(RequestKind.COMPLETION, WRITTEN, include_usage=include_usage)
    assert "".join(each["choices"][0]["text"] for each in text if each["choices"]) == "Hello"
    assert {each["object"] for each in text} == {"text_completion"}


@pytest.mark.parametrize("kind", list(RequestKind))
def test_what_the_draft_wrote_alone_is_marked_in_each_chunk_and_at_the_end(kind):
    *_, verified, unverified, end, cost = stream(kind, ALONE, include_usage=True)
    assert "outrider" not in verified
    assert unverified["outrider"] == {"offline": True}
    assert end["outrider"] == {"offline": True, "unconfirmed_tokens": 2, "private": False}
    assert verified["system_fingerprint"] == "fp_target"
    assert {each["system_fingerprint"] for each in (unverified, end, cost)} == {"fp_offline_draft"}
    whole = builder(kind).whole([ALONE])
    assert whole["outrider"] == end["outrider"]
    assert whole["system_fingerprint"] == "fp_offline_draft"


def test_calls_and_reasoning_are_parts_of_a_whole_message_and_content_is_null():
    answer = ChatCompletion.model_validate(builder(RequestKind.CHAT).whole([CALLED]), strict=True)
    message = answer.choices[0].message
    assert (message.content, message.reasoning_content) == (None, "I should")
    assert [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls] == [
        ("call_1", "add", '{"a": 1}'),
        ("call_2", "look", "{}"),
    ]
    assert answer.choices[0].finish_reason == "tool_calls"


def test_calls_are_streamed_under_their_indexes_first_the_name_and_then_the_arguments():
    names, calls, chunks = builder(RequestKind.CHAT), 0, []
    for piece in CALLED.pieces:
        chunks += names.piece(0, piece, calls)
        calls += isinstance(piece, ToolCall)
    deltas = [ChatCompletionChunk.model_validate(each, strict=True).choices[0].delta for each in chunks]
    assert deltas[0].reasoning_content == "I should"
    streamed = [delta.tool_calls[0] for delta in deltas[1:]]
    assert [(call.index, call.id, call.function.name, call.function.arguments) for call in streamed] == [
        (0, "call_1", "add", ""),
        (0, None, None, '{"a": 1}'),
        (1, "call_2", "look", ""),
        (1, None, None, "{}"),
    ]


def test_several_choices_go_by_their_index_and_count_their_prompt_once():
    names = builder(RequestKind.COMPLETION, "a", "b")
    whole = Completion.model_validate(names.whole([WRITTEN, ALONE]), strict=True)
    assert [(choice.index, choice.text) for choice in whole.choices] == [(0, "aHello"), (1, "bHello")]
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (3, 8)
    assert [each["unconfirmed_tokens"] for each in whole.outrider["choices"]] == [0, 2]
    assert [(each["choices"][0]["index"], each["choices"][0]["text"]) for each in names.opening()] == [
        (0, "a"),
        (1, "b"),
    ]
    assert names.usage([WRITTEN, ALONE])["usage"] == names.whole([WRITTEN, ALONE])["usage"]


def test_log_probabilities_are_what_openais_clients_expect_and_add_up():
    tokens = [ScoredToken(text.encode(), -1.0, ((b"x", -0.5),), start) for text, start in (("Hel", 0), ("lo", 3))]
    calls = ScoredToken(b"<call>", -2.0, ((b"x", -0.5),), 5)
    pieces = tuple(replace(piece, scored=(each,)) for piece, each in zip(HELLO, tokens, strict=True))
    written = replace(WRITTEN, pieces=pieces, scored=(calls,))
    for kind, read, column in (
        (RequestKind.CHAT, ChatCompletion, "content"),
        (RequestKind.COMPLETION, Completion, "token_logprobs"),
    ):
        names = builder(kind)
        whole = names.whole([written])
        assert len(getattr(read.model_validate(whole, strict=True).choices[0].logprobs, column)) == 3
        chunks = [*(each for piece in pieces for each in names.piece(0, piece, 0)), names.closing(0, written)]
        streamed = [each for chunk in chunks for each in chunk["choices"][0]["logprobs"][column]]
        assert streamed == whole["choices"][0]["logprobs"][column]
