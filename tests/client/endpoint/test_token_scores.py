"""Tokens as bytes, and the log-probabilities that go with emitted text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from client.endpoint.openai_logprobs import in_chat, in_completion
from client.endpoint.token_scores import Spelling, TokenScores
from common.models.tokenizer import ChatFormat, PlainTokenizer
from common.protocol.logprobs import TokenLogprobs
from tests.families import END_TOKEN, make_tokenizer

BYTE_LEVEL = make_tokenizer()
SPELL = Spelling(BYTE_LEVEL)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_the_bytes_of_a_texts_tokens_are_the_texts(text):
    tokens = BYTE_LEVEL(text, add_special_tokens=False)["input_ids"]
    assert b"".join(map(SPELL, tokens)) == text.encode()


def test_tokens_of_sentencepiece_are_its_bytes_and_spaces():
    backend = Tokenizer(models.BPE({"\u2581the": 0, "<0xE2>": 1, "s": 2}, [], byte_fallback=True))
    backend.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    spell = Spelling(PlainTokenizer(backend, ChatFormat(None, None, None), {}, splits=False))
    assert [spell(token) for token in range(4)] == [b" the", b"\xe2", b"s", b""]


def test_the_table_of_added_tokens_is_made_once_for_all_tokens(monkeypatch):
    """It has thousands of entries in some vocabularies."""
    table, made = BYTE_LEVEL.added_tokens_decoder, []
    monkeypatch.setattr(type(BYTE_LEVEL), "added_tokens_decoder", property(lambda _: made.append(1) or table))
    spell = Spelling(BYTE_LEVEL)
    for token in range(9):
        spell(token)
    assert len(made) == 1


def test_a_special_token_is_its_name():
    assert SPELL(BYTE_LEVEL.eos_token_id) == END_TOKEN.encode()


def scores() -> TokenScores:
    kept = {0: TokenLogprobs(-1.0, ((1, -0.5),)), 2: TokenLogprobs(-2.0, ((2, -2.0),))}
    return TokenScores(lambda token: bytes([96 + token]), kept.get)


def test_each_goes_once_with_the_text_that_it_begins_in():
    kept = scores()
    kept.add(5, 0)
    kept.add(6, 1)  # which the target has not verified
    kept.add(2, 2)
    assert kept.take(0) == ()
    (first,) = kept.take(2)
    assert (first.spelling, first.logp, first.top, first.start) == (b"e", -1.0, ((b"a", -0.5),), 0)
    assert [each.spelling for each in kept.take(3)] == [b"b"]
    assert kept.take(9) == ()


def test_openais_objects():
    kept = scores()
    kept.add(5, 0)
    kept.add(0x82, 1)
    kept.add(2, 2)
    taken = kept.take(9)
    chat = in_chat(taken)
    assert [(each["token"], each["logprob"], each["bytes"]) for each in chat["content"]] == [
        ("e", -1.0, [101]),
        ("b", -2.0, [98]),
    ]
    assert chat["content"][0]["top_logprobs"] == [{"token": "a", "logprob": -0.5, "bytes": [97]}]
    assert in_completion(taken) == {
        "tokens": ["e", "b"],
        "token_logprobs": [-1.0, -2.0],
        "top_logprobs": [{"a": -0.5, "e": -1.0}, {"b": -2.0}],
        "text_offset": [0, 2],
    }
    assert in_chat(()) is in_completion(()) is None


@pytest.mark.parametrize("part", [b"\xe2", b"\xe2\x80"])
def test_a_part_of_a_character_is_named_by_its_bytes(part):
    kept = TokenScores(lambda _: part, lambda _: TokenLogprobs(-1.0))
    kept.add(1, 0)
    (told,) = in_chat(kept.take(1))["content"]
    assert told["token"] == "bytes:" + "".join(f"\\x{byte:02x}" for byte in part)
    assert bytes(told["bytes"]) == part
