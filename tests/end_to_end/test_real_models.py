"""Models as people serve them: by hub id, sharded, quantised, in half precision; drafts by hub id and by directory."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from client.text import raw_tokens
from common.models.checkpoint import load_causal_lm, load_tokenizer
from tests.client.test_cli import outrider
from tests.daemon import ready
from tests.drafts import make_eagle_draft, make_moa_draft
from tests.families import make_checkpoint
from tests.hub import put_into_cache
from tests.programs import command
from tests.quantised import make_fp8

PROMPT = "the quick brown fox"
TOKENS = 24


@dataclass(frozen=True)
class BundleStore:
    """A target, the address of its server, and the directory for bundles."""

    target: Path
    address: str
    cache: Path


@pytest.fixture(scope="module")
def hub(tmp_path_factory) -> Iterator[Path]:
    """The hub client's cache for this process and its children; it works without a network."""
    home = tmp_path_factory.mktemp("hub")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(home))
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield home


@pytest.fixture(scope="module")
def quantised(hub, tmp_path_factory) -> Iterator[BundleStore]:
    folder = tmp_path_factory.mktemp("quantised")
    target = make_fp8(folder / "fp8", make_checkpoint(folder / "plain", "llama", layers=4, seed=3))
    put_into_cache(hub, "acme/Big-FP8", target)
    put_into_cache(hub, "acme/big-moa", make_moa_draft(folder / "moa", target))
    eagle = make_eagle_draft(folder / "big-eagle", target)
    arguments = ["--target", "acme/Big-FP8", "--draft", "acme/big-moa", "--draft", str(eagle), "--dtype", "float64"]
    with served_from_hub(*arguments) as address:
        yield BundleStore(target, address, folder / "cache")


@contextmanager
def served_from_hub(*arguments: str) -> Iterator[str]:
    """The HOST:PORT of a server started by this test: the hub's client reads the path of its cache on import."""
    line = [command("outriderd"), "serve", "--listen", "127.0.0.1:0", *arguments]
    with ready(subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)) as address:
        yield address


def generated(target: Path, dtype: str) -> list[int]:
    """transformers' answer to the prompt with the target's checkpoint."""
    tokens = raw_tokens(load_tokenizer(target), PROMPT)
    model = load_causal_lm(target, dtype=dtype)
    return model.generate(torch.tensor([tokens]), max_new_tokens=TOKENS, do_sample=False)[0, len(tokens) :].tolist()


def answered(monkeypatch, capsys, bundle_store: BundleStore, *arguments: str) -> dict:
    asked = ["run", PROMPT, "--server", bundle_store.address, "--cache-dir", str(bundle_store.cache), "--raw", "--json"]
    code, out, err = outrider(monkeypatch, capsys, *asked, "--max-new-tokens", str(TOKENS), *arguments)
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize(("draft", "layers"), [("big-moa", "0"), ("big-moa", "3"), ("big-eagle", "0"), ("lookup", "0")])
def test_a_quantised_target_answers_as_transformers_does(monkeypatch, capsys, quantised, draft, layers):
    result = answered(monkeypatch, capsys, quantised, "--draft", draft, "--layers", layers, "--dtype", "float64")
    assert result["token_ids"] == generated(quantised.target, "float64")
    assert result["stats"]["draft"] == draft


def test_what_a_laptop_gets_of_a_quantised_target_is_plain(monkeypatch, capsys, quantised):
    answered(monkeypatch, capsys, quantised, "--draft", "big-moa", "--dtype", "bfloat16")
    tails = list(quantised.cache.glob("bundles/*/tail/config.json"))
    assert tails
    assert not any("quantization_config" in json.loads(tail.read_text()) for tail in tails)


def test_sharded_weights_run_in_half_precision_and_are_quantised_on_loading(monkeypatch, capsys, hub, tmp_path):
    target = make_checkpoint(tmp_path / "target", "qwen3", sharded=True, dtype=torch.bfloat16, hidden=192)
    draft = make_checkpoint(tmp_path / "draft", "qwen3", sharded=True, dtype=torch.bfloat16, layers=1)
    put_into_cache(hub, "acme/Sharded", target)
    put_into_cache(hub, "acme/Sharded-draft", draft)
    half = ("--device", "cpu", "--dtype", "bfloat16")
    arguments = ("--target", "acme/Sharded", "--draft", "acme/Sharded-draft", "--quantize", "int8")
    with served_from_hub(*arguments, *half) as address:
        capsys.readouterr()  # log lines of making the checkpoints
        result = answered(monkeypatch, capsys, BundleStore(target, address, tmp_path / "cache"), *half)
    assert result["stats"]["draft"] == "Sharded-draft"
    assert len(result["token_ids"]) == TOKENS
