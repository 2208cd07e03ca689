"""Answers as OpenAI's own types read them."""

import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from client.endpoint.openai_requests import RequestKind
from client.endpoint.openai_responses import FinishedAnswer, ResponseBuilder, TextPiece

WRITTEN = FinishedAnswer("Hello", "stop", 3, 4)
ALONE = FinishedAnswer("Hello", "length", 3, 4, unverified=2, details={"private": False})


def builder(kind: RequestKind) -> ResponseBuilder:
    return ResponseBuilder(kind, "id", 17, "outrider", "target", "draft")


def stream(kind: RequestKind, written: FinishedAnswer, *, include_usage: bool) -> list[dict]:
    names = builder(kind)
    pieces = [names.piece(TextPiece("Hel")), names.piece(TextPiece("lo", unverified=written.unverified > 0))]
    return [*names.opening(), *pieces, *names.closing(written, include_usage=include_usage)]


@pytest.mark.parametrize("written", [WRITTEN, ALONE])
def test_a_whole_answer_is_what_openais_clients_expect(written):
    chat = ChatCompletion.model_validate(builder(RequestKind.CHAT).whole(written), strict=True)
    assert chat.choices[0].message.content == "Hello"
    text = Completion.model_validate(builder(RequestKind.COMPLETION).whole(written), strict=True)
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
    whole = builder(kind).whole(ALONE)
    assert whole["outrider"] == end["outrider"]
    assert whole["system_fingerprint"] == "fp_offline_draft"
