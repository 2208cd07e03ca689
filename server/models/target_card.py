"""What a client must know of a target, read from its checkpoint's small files; no weights are loaded."""

from pathlib import Path

from transformers import GenerationConfig, PreTrainedTokenizerBase

from common.bundle import TargetCard
from common.models.checkpoint import load_config
from common.models.errors import CheckpointError
from common.models.families import context_of
from common.models.fingerprint import fingerprint


def read_card(name: str, directory: Path, tokenizer: PreTrainedTokenizerBase) -> TargetCard:
    """`name` is for people. Raises CheckpointError where the checkpoint's configuration cannot be read."""
    config = load_config(directory)
    try:
        if (directory / "generation_config.json").is_file():
            generation = GenerationConfig.from_pretrained(directory, local_files_only=True)
        else:
            generation = GenerationConfig.from_model_config(config)
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"the generation configuration in {directory} cannot be read; fetch the checkpoint again."
        ) from error
    context = context_of(config)
    if context is None:
        raise CheckpointError(
            f"the configuration in {directory} names no longest context; add max_position_embeddings to it."
        )
    configured = generation.eos_token_id
    ends = set(configured) if isinstance(configured, list | tuple) else {configured}
    ends.add(tokenizer.eos_token_id)
    return TargetCard(
        model=name,
        fingerprint=fingerprint(directory),
        vocab_size=config.vocab_size,
        context=context,
        end_tokens=tuple(sorted(ends - {None})),
    )
