"""A tiny Llama target, with the demo target's kind of tokenizer, and a draft for it."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, pre_tokenizers

from tests.families import make_checkpoint


def make_llama(directory: Path, seed: int, layers: int = 2) -> Path:
    checkpoint = make_checkpoint(directory, "llama", tied=True, seed=seed, dtype=torch.float32, layers=layers)
    stored = directory / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(stored))
    pieces = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(pieces)
    tokenizer.save(str(stored))
    return checkpoint
