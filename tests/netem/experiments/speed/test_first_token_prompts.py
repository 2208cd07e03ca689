from pathlib import Path

import pytest

from client.text import chat_tokens, decode
from common.models.checkpoint import load_tokenizer
from common.models.shipped import FAMILIES
from common.protocol.errors import MisuseError
from netem.experiments.speed.first_token_prompts import cut_prompts, long_texts

FILE: Path = FAMILIES["demo"].folder / "prompts.jsonl"
LENGTHS = (60, 250, 1000)


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(FAMILIES["demo"].folder / "target")


def test_prompts_have_their_length_and_the_templates_end(tokenizer):
    [text] = long_texts(FILE, 1, seed=0)
    whole = chat_tokens(tokenizer, [{"role": "user", "content": text}])
    cut = cut_prompts(tokenizer, text, LENGTHS)
    assert {length: len(tokens) for length, tokens in cut.items()} == {length: length for length in LENGTHS}
    for tokens in cut.values():
        written = tokenizer.decode(tokens)
        assert written.startswith("<|user|>")
        assert written.endswith("<|end|><|assistant|>")
        kept = decode(tokenizer, tokens)
        assert kept.strip()
        assert text.startswith(kept)
    assert cut[1000][:900] == whole[:900]


def test_texts_differ_and_depend_on_the_seed():
    texts = long_texts(FILE, 3, seed=0)
    assert len(set(texts)) == 3
    assert texts == long_texts(FILE, 3, seed=0)
    assert texts != long_texts(FILE, 3, seed=1)


def test_what_cannot_be_cut_is_refused(tokenizer):
    with pytest.raises(MisuseError, match="cannot be cut"):
        cut_prompts(tokenizer, "short", (60,))
    with pytest.raises(MisuseError, match="cannot be cut"):
        cut_prompts(tokenizer, "a text " * 100, (2,))


def test_a_file_without_such_texts_is_refused(tmp_path):
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"category": "code", "split": "held-out instance", "prompt": "x"}\n', encoding="utf-8")
    with pytest.raises(MisuseError, match="no prompt of the categories"):
        long_texts(file, 1, seed=0)
