"""What a target's generation_config.json asks for that no pass applies: answers are the target's own, and what changes
them is for each request to say.

It may not know requests, nor end tokens, which are read with the target's card.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.models.source import read_json

GENERATION = "generation_config.json"

_CHANGES_GREEDY: Mapping[str, tuple[Any, ...]] = {
    "repetition_penalty": (1,),
    "encoder_repetition_penalty": (1,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "bad_words_ids": ([],),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
    "sequence_bias": ([], {}),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "exponential_decay_length_penalty": (),
    "guidance_scale": (1,),
    "num_beams": (1,),
    "stop_strings": ([], ""),
    "token_healing": (False,),
    "watermarking_config": (),
}
"""By which fields transformers' `generate` answers otherwise at `do_sample=False`, and with which values it does not;
null is one of each."""


def unapplied(target: Path) -> tuple[str, ...]:
    """The fields of the checkpoint's generation_config.json that would change a greedy answer. Raises CheckpointError
    where the file cannot be read."""
    path = target / GENERATION
    said = read_json(path) if path.is_file() else {}
    return tuple(
        name for name, neutral in _CHANGES_GREEDY.items() if said.get(name) is not None and said[name] not in neutral
    )


def describe_unapplied(model: str, fields: tuple[str, ...]) -> str:
    """In one sentence."""
    which = "it" if len(fields) == 1 else "them"
    return (
        f"{', '.join(fields)} of {model}'s {GENERATION} would change greedy answers, and no pass applies {which}; apps "
        "set in each request what they need of penalties, biases and stop strings"
    )
