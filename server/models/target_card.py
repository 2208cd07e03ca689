"""What a client must know of a target, read from its checkpoint's small files; no weights are loaded."""

from pathlib import Path

from transformers import PreTrainedTokenizerBase

from common.bundle import TargetCard
from common.models.checkpoint import load_config, read_end_tokens
from common.models.errors import CheckpointError
from common.models.families import context_of
from common.models.fingerprint import fingerprint


def read_card(name: str, directory: Path, tokenizer: PreTrainedTokenizerBase) -> TargetCard:
    """`name` is for people. Raises CheckpointError where the checkpoint's configuration cannot be read."""
    config = load_config(directory)
    context = context_of(config)
    if context is None:
        raise CheckpointError(
            f"the configuration in {directory} names no longest context; add max_position_embeddings to it"
        )
    return TargetCard(
        model=name,
        fingerprint=fingerprint(directory),
        vocab_size=config.vocab_size,
        context=context,
        end_tokens=tuple(sorted(read_end_tokens(directory, config, tokenizer))),
    )
