"""The files of a bundle that other libraries read: tokenizer, chat template, configuration, weights."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors.torch import save

from client.text import chat_tokens, decode, raw_tokens
from common.draft_models.directory import read_draft_kind
from common.draft_models.measured_acceptance import read_measured_acceptance
from common.draft_models.weight_files import read_tensors
from common.models.checkpoint import load_tokenizer
from common.protocol.errors import MisuseError
from tests.families import make_checkpoint
from tests.fuzz.harness import check_sentence
from tests.fuzz.mutation import STRINGS, FuzzedFrame, damaged

_WEIGHTS = "model.safetensors"
_VALUES = (None, 0, -1, 1 << 63, 0.5, True, [], {}, [[1, 2]], {"type": "BPE"}, "<|end|>", "(a+)+$", *STRINGS)


@cache
def _files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="outrider-fuzz-") as folder:
        made = make_checkpoint(Path(folder) / "made", "llama", layers=1)
        names = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
        files = {name: (made / name).read_bytes() for name in names}
    return {**files, _WEIGHTS: save({"a": torch.ones(3, 2), "b": torch.zeros(5)})}


class FileHarness:
    """A frame's first byte selects the file."""

    def __init__(self, rng: Random):
        self._folder = tempfile.TemporaryDirectory(prefix="outrider-fuzz-")
        self._directory = Path(self._folder.name)
        for name, content in _files().items():
            (self._directory / name).write_bytes(content)

    def frame(self, rng: Random) -> FuzzedFrame:
        kind = rng.randrange(len(_files()))
        name, content = list(_files().items())[kind]
        if name.endswith(".json") and rng.random() < 0.6:
            content = _with_changed_value(content, rng)
        elif name == _WEIGHTS and rng.random() < 0.7:
            content = damaged(content[:160], rng, b'{"a":{"dtype":"F64"') + content[160:]
        else:
            content = damaged(content, rng, b"{{ messages.__class__ }}")
        return FuzzedFrame(bytes((kind,)) + content, mutated=True)

    def take(self, data: bytes) -> str:
        name, content = list(_files().items())[data[0]]
        (self._directory / name).write_bytes(data[1:])
        try:
            with _discarded_stderr():
                self._load(name)
            return "loaded"
        except MisuseError as error:
            check_sentence(error)
            return "refused"
        finally:
            (self._directory / name).write_bytes(content)

    def end(self) -> None:
        self._folder.cleanup()

    def _load(self, name: str) -> None:
        if name == _WEIGHTS:
            read_tensors(self._directory)
            return
        if name == "config.json":
            read_draft_kind(self._directory)
            read_measured_acceptance(self._directory)
        tokenizer = load_tokenizer(self._directory)
        decode(tokenizer, raw_tokens(tokenizer, "the quick brown fox é"))
        chat_tokens(tokenizer, [{"role": "user", "content": "hi"}])


@contextmanager
def _discarded_stderr() -> Iterator[None]:
    """Discards stderr, to which Rust libraries write their panics directly."""
    kept = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def _with_changed_value(content: bytes, rng: Random) -> bytes:
    """The JSON with one value changed, at any depth."""
    whole: Any = json.loads(content)
    node = whole
    while True:
        key = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        if not isinstance(node[key], dict | list) or not node[key] or rng.random() < 0.25:
            node[key] = rng.choice(_VALUES)
            return json.dumps(whole).encode()
        node = node[key]
