"""The tokenizer: round trips, the chat template and answer lengths."""

from __future__ import annotations

import statistics
from itertools import islice
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from training.demo.corpus import Corpus, sample_texts
from training.demo.split import training_instances
from training.demo.tokenizer import END, VOCABULARY, encode_turns, train_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerFast:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer(sample_texts(Corpus(0), 2500), 2048).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("text", ["plain text", " spaces  and\n\n\tindent", "héllo ☃ 日本 🙂", "\x00\x7f", ""])
def test_any_text_survives_a_round_trip(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_size_and_end_of_turn(tokenizer: PreTrainedTokenizerFast) -> None:
    assert len(tokenizer) <= VOCABULARY
    assert tokenizer.eos_token == END
    assert len(tokenizer.encode(END)) == 1


def test_encoded_turns_match_the_chat_template(tokenizer: PreTrainedTokenizerFast) -> None:
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello!"},
    ]
    encoded = encode_turns(tokenizer, (("Hi", "Hello!"),), system="Be kind.")
    assert tokenizer.encode(tokenizer.apply_chat_template(messages, tokenize=False)) == encoded.ids
    learned = [token for token, learn in zip(encoded.ids, encoded.learn, strict=True) if learn]
    assert tokenizer.decode(learned) == "Hello!" + END


def test_the_median_answer_is_long_enough_to_draft(tokenizer: PreTrainedTokenizerFast) -> None:
    lengths = [len(tokenizer.encode(item.answer)) for item in islice(training_instances("length"), 400)]
    assert statistics.median(lengths) >= 100
