"""common.models.tokenizer_growth: a tokenizer that would expand a letter to fill the memory is refused unloaded."""

import base64
import json

import pytest
import transformers
from tokenizers import Tokenizer

from common.models import tokenizer_growth
from common.models.errors import CheckpointError
from common.models.tokenizer_growth import check_growth, check_growth_of_file

DOUBLING = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
INSERTING = {"type": "Replace", "pattern": {"Regex": "x*"}, "content": "y" * 9}


def charsmap(longest: int) -> dict:
    index = b"\0" * 8
    table = len(index).to_bytes(4, "little") + index + b"ab\0" + b"z" * longest + b"\0"
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}


def sequence(component: dict, times: int, name: str = "normalizers") -> dict:
    return {"type": "Sequence", name: [component] * times}


EXPLODING = [
    {"normalizer": sequence(DOUBLING, 40)},
    {"normalizer": sequence(sequence(DOUBLING, 7), 7)},
    {"normalizer": sequence(INSERTING, 5)},
    {"normalizer": sequence(charsmap(100), 3)},
    {"normalizer": DOUBLING | {"content": "a" * 5000}},
    {"normalizer": DOUBLING | {"content": "a" * 5000, "normalizers": []}},
    {"pre_tokenizer": sequence({"type": "ByteLevel"}, 30, "pretokenizers")},
    {"decoder": sequence(DOUBLING, 40, "decoders")},
]


@pytest.mark.parametrize("tokenizer", EXPLODING)
def test_what_explodes_is_refused_however_it_is_written(tokenizer, tmp_path):
    file = tmp_path / "tokenizer.json"
    for text in (json.dumps(tokenizer), json.dumps(tokenizer).replace("Replace", "\\u0052eplace")):
        file.write_text(text)
        with pytest.raises(CheckpointError, match="times as long"):
            check_growth_of_file(file)


@pytest.mark.parametrize(
    "tokenizer",
    [
        {},
        {"normalizer": None, "decoder": {"type": "ByteLevel"}, "pre_tokenizer": {"type": "ByteLevel"}},
        # Llama 2's and Mistral's, T5's and XLNet's.
        {
            "normalizer": {
                "type": "Sequence",
                "normalizers": [
                    {"type": "Prepend", "prepend": "▁"},
                    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
                ],
            },
            "decoder": {
                "type": "Sequence",
                "decoders": [
                    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                    {"type": "ByteFallback"},
                    {"type": "Fuse"},
                    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
                ],
            },
        },
        {"normalizer": {"type": "Sequence", "normalizers": [charsmap(33), INSERTING]}},
        {"normalizer": sequence({"type": "Replace", "pattern": {"String": "``"}, "content": '"'}, 50)},
    ],
)
def test_what_is_published_is_let_through(tokenizer, tmp_path):
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(tokenizer))
    check_growth_of_file(file)
    check_growth(tokenizer, file)


@pytest.mark.parametrize("family", ["Llama", "CodeLlama", "Gemma", "Qwen2", "GPT2", "GPTNeoX", "Cohere", "T5", "XLNet"])
def test_the_tokenizers_of_whole_families_are_let_through(family, tmp_path):
    check_growth(json.loads(getattr(transformers, f"{family}Tokenizer")().backend_tokenizer.to_str()), tmp_path)


@pytest.mark.parametrize(
    "text",
    ["Replace", '["Replace"]', '{"normalizer": {"content": "Replace"}}', '{"decoder": "Replace"}', '"Replace' * 9],
)
def test_what_is_no_tokenizer_is_told_as_such(text, tmp_path):
    file = tmp_path / "tokenizer.json"
    file.write_text(text)
    with pytest.raises(CheckpointError, match="fetch or save"):
        check_growth_of_file(file)


@pytest.mark.parametrize("component", [DOUBLING, DOUBLING | {"content": "aaaaa"}, INSERTING])
def test_the_bound_holds_for_what_the_library_does(component, monkeypatch, tmp_path):
    model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
    content = {"version": "1.0", "added_tokens": [], "normalizer": sequence(component, 3), "model": model}
    grown = len(Tokenizer.from_str(json.dumps(content)).normalizer.normalize_str("a" * 100)) / 100
    assert grown > 1
    monkeypatch.setattr(tokenizer_growth, "MOST_GROWTH", 0.99 * grown)
    with pytest.raises(CheckpointError):
        check_growth(content, tmp_path)
