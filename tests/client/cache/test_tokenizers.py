"""client.cache.tokenizers: transformers makes a tokenizer once, and what is damaged is made again."""

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest

from client.cache.tokenizers import tokenizer_of
from client.text import decode, raw_tokens
from common.bundle import TOKENIZER_FOLDER, BundleFile, BundleManifest, make_manifest
from common.models import checkpoint
from common.models.errors import CheckpointError
from common.models.tokenizer import PlainTokenizer
from tests.families import make_tokenizer

TEXT = "the quick brown fox"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    make_tokenizer().save_pretrained(tmp_path / "bundle" / TOKENIZER_FOLDER)
    (tmp_path / "bundle" / TOKENIZER_FOLDER / "config.json").write_text('{"model_type": "llama"}')
    return tmp_path / "bundle"


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What transformers was asked to load."""
    asked: list[Path] = []
    load = checkpoint.load_tokenizer

    def noted(directory: Path) -> object:
        asked.append(directory)
        return load(directory)

    monkeypatch.setattr(checkpoint, "load_tokenizer", noted)
    return asked


def manifest_of(bundle: Path, draft: str = "moa") -> BundleManifest:
    files = [path for path in bundle.rglob("*") if path.is_file()]
    described = [
        BundleFile(
            path.relative_to(bundle).as_posix(), path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()
        )
        for path in files
    ]
    return make_manifest(draft, draft, "target", described)


def test_transformers_is_asked_once_and_the_answer_serves_all_drafts(bundle, tmp_path, loads) -> None:
    first = tokenizer_of(tmp_path / "cache", manifest_of(bundle), bundle)
    again = tokenizer_of(tmp_path / "cache", manifest_of(bundle, "lookup"), bundle)
    assert len(loads) == 1
    assert isinstance(again, PlainTokenizer)
    assert again(TEXT)["input_ids"] == first(TEXT)["input_ids"] == make_tokenizer()(TEXT)["input_ids"]


def test_another_tokenizer_is_another_one(bundle, tmp_path, loads) -> None:
    tokenizer_of(tmp_path / "cache", manifest_of(bundle), bundle)
    make_tokenizer(280).save_pretrained(bundle / TOKENIZER_FOLDER)
    other = tokenizer_of(tmp_path / "cache", manifest_of(bundle), bundle)
    assert len(loads) == 2
    assert len(other.get_vocab()) == 280


@pytest.mark.parametrize("at", [0, 40, -1])
def test_what_is_damaged_is_made_again(bundle, tmp_path, loads, at) -> None:
    cache = tmp_path / "cache"
    tokenizer_of(cache, manifest_of(bundle), bundle)
    (kept,) = (cache / "tokenizers").iterdir()
    data = bytearray(kept.read_bytes())
    data[at] ^= 1
    kept.write_bytes(data)
    again = tokenizer_of(cache, manifest_of(bundle), bundle)
    assert len(loads) == 2
    assert again(TEXT)["input_ids"] == make_tokenizer()(TEXT)["input_ids"]
    tokenizer_of(cache, manifest_of(bundle), bundle)
    assert len(loads) == 2


def test_where_nothing_can_be_kept_it_is_made_each_time(bundle, tmp_path, loads) -> None:
    (tmp_path / "cache").write_text("a file where the folder would be")
    for _ in range(2):
        assert tokenizer_of(tmp_path / "cache", manifest_of(bundle), bundle)(TEXT)["input_ids"]
    assert len(loads) == 2


def test_a_full_disk_keeps_no_part_of_it(bundle, tmp_path, monkeypatch) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    assert tokenizer_of(tmp_path, manifest_of(bundle), bundle)(TEXT)["input_ids"]
    assert not list((tmp_path / "tokenizers").iterdir())


def test_a_tokenizer_with_ways_of_its_own_stays_with_transformers(bundle, tmp_path, loads, monkeypatch) -> None:
    monkeypatch.setattr("client.cache.tokenizers.plain_tokenizer", lambda theirs: None)
    kept = tokenizer_of(tmp_path / "cache", manifest_of(bundle), bundle)
    assert type(kept).__name__ == "TokenizersBackend"
    assert not (tmp_path / "cache" / "tokenizers").exists()


def test_a_tokenizer_of_transformers_leaves_spaces_as_they_were(bundle, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("client.cache.tokenizers.plain_tokenizer", lambda theirs: None)
    config = bundle / TOKENIZER_FOLDER / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "clean_up_tokenization_spaces": True}))
    kept = tokenizer_of(tmp_path / "cache", manifest_of(bundle), bundle)
    kept.clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output = True
    assert decode(kept, raw_tokens(kept, "the fox , the hen .")) == "the fox , the hen ."


def test_a_tokenizer_that_cannot_be_used_is_told(bundle, tmp_path) -> None:
    (bundle / TOKENIZER_FOLDER / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="cannot be read"):
        tokenizer_of(tmp_path / "cache", manifest_of(bundle), bundle)
