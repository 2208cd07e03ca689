"""Answers as OpenAI's own types read them."""

import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from client.endpoint.openai_requests import Kind
from client.endpoint.openai_responses import Naming, Piece, Written, model_list

WRITTEN = Written("Hello", "stop", 3, 4)
ALONE = Written("Hello", "length", 3, 4, alone=2, about={"private": False})


def naming(kind: Kind) -> Naming:
    return Naming(kind, "id", 17, "outrider", "target", "draft")


def stream(kind: Kind, written: Written, *, include_usage: bool) -> list[dict]:
    names = naming(kind)
    pieces = [names.piece(Piece("Hel")), names.piece(Piece("lo", alone=written.alone > 0))]
    return [*names.opening(), *pieces, *names.closing(written, include_usage=include_usage)]


@pytest.mark.parametrize("written", [WRITTEN, ALONE])
def test_a_whole_answer_is_what_openais_clients_expect(written):
    chat = ChatCompletion.model_validate(naming(Kind.CHAT).whole(written), strict=True)
    assert chat.choices[0].message.content == "Hello"
    text = Completion.model_validate(naming(Kind.COMPLETION).whole(written), strict=True)
    assert text.choices[0].text == "Hello"
    for answer in (chat, text):
        assert answer.choices[0].finish_reason == written.reason
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (3, 4, 7)


@pytest.mark.parametrize("include_usage", [False, True])
def test_chunks_are_what_openais_clients_expect(include_usage):
    chat = [
        ChatCompletionChunk.model_validate(each, strict=True)
        for each in stream(Kind.CHAT, WRITTEN, include_usage=include_usage)
    ]
    assert chat[0].choices[0].delta.role == "assistant"
    assert "".join(each.choices[0].delta.content or "" for each in chat if each.choices) == "Hello"
    assert [each.usage.total_tokens for each in chat if each.usage] == [7] * include_usage
    text = stream(Kind.COMPLETION, WRITTEN, include_usage=include_usage)
    assert "".join(each["choices"][0]["text"] for each in text if each["choices"]) == "Hello"
    assert {each["object"] for each in text} == {"text_completion"}


@pytest.mark.parametrize("kind", list(Kind))
def test_what_the_draft_wrote_alone_is_marked_in_each_chunk_and_at_the_end(kind):
    *_, judged, unjudged, end, cost = stream(kind, ALONE, include_usage=True)
    assert "outrider" not in judged
    assert unjudged["outrider"] == {"offline": True}
    assert end["outrider"] == {"offline": True, "unconfirmed_tokens": 2, "private": False}
    assert judged["system_fingerprint"] == "fp_target"
    assert {each["system_fingerprint"] for each in (unjudged, end, cost)} == {"fp_offline_draft"}
    whole = naming(kind).whole(ALONE)
    assert whole["outrider"] == end["outrider"]
    assert whole["system_fingerprint"] == "fp_offline_draft"


def test_models_are_a_list():
    listed = model_list(("a", "b"), 17)
    assert [each["id"] for each in listed["data"]] == ["a", "b"]
