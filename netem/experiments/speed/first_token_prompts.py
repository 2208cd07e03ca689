"""Prompts of exact lengths: held-out texts joined in one user message, truncated before the chat template's end.

May know tokens and templates. It may not know links, systems or what is measured.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from client.text import chat_tokens
from common.protocol.errors import MisuseError
from netem.experiments.one_device.prompts import HELD_OUT_FAMILY, read_prompts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer

_CATEGORIES = ("reading", "stories")


def long_texts(file: Path, count: int, seed: int) -> list[str]:
    """`count` texts, each of all held-out prompts in a random order of its own.

    Raises MisuseError where the file has none of them.
    """
    known = [prompt for prompt in read_prompts(file) if prompt.split != HELD_OUT_FAMILY]
    texts = [prompt.text for prompt in known if prompt.category in _CATEGORIES]
    if not texts:
        raise MisuseError(f"{file} has no prompt of the categories {', '.join(_CATEGORIES)}")
    draw = random.Random(seed)
    return ["\n\n".join(draw.sample(texts, len(texts))) for _ in range(count)]


def cut_prompts(tokenizer: "Tokenizer", text: str, lengths: Sequence[int]) -> dict[int, list[int]]:
    """For each length, token ids of a conversation of exactly that length with the beginning of `text`.

    Raises MisuseError where the text is too short, or a length too short for the template.
    """
    tokens = _conversation(tokenizer, text)
    end = _shared_end(tokens, _conversation(tokenizer, ""))
    if not (len(end) < min(lengths) and max(lengths) <= len(tokens)):
        raise MisuseError(f"prompts of {min(lengths)} to {max(lengths)} tokens cannot be cut from {len(tokens)} tokens")
    return {length: tokens[: length - len(end)] + end for length in lengths}


def _conversation(tokenizer: "Tokenizer", text: str) -> list[int]:
    return chat_tokens(tokenizer, [{"role": "user", "content": text}])


def _shared_end(tokens: Sequence[int], others: Sequence[int]) -> list[int]:
    count = 0
    while count < min(len(tokens), len(others)) and tokens[-1 - count] == others[-1 - count]:
        count += 1
    return list(tokens[len(tokens) - count :])
