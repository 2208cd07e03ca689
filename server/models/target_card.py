"""What a client must know of a target, read from its checkpoint's small files; no weights are loaded."""

from pathlib import Path

from transformers import PreTrainedTokenizerBase

from common.bundle import TargetCard
from common.models.checkpoint import load_config, read_end_tokens
from common.models.families import required_context
from common.models.fingerprint import fingerprint


def read_card(name: str, directory: Path, tokenizer: PreTrainedTokenizerBase) -> TargetCard:
    """`name` is for people. Raises CheckpointError where the checkpoint's configuration cannot be read."""
    config = load_config(directory)
    return TargetCard(
        model=name,
        fingerprint=fingerprint(directory),
        vocab_size=config.vocab_size,
        context=required_context(config, directory),
        end_tokens=tuple(sorted(read_end_tokens(directory, config, tokenizer))),
    )
