"""The demo tokenizer: byte-level BPE with chat markers, and the encoding of conversations with an answer mask.

What may live here: training, saving and applying the tokenizer. It may not know where conversations come from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from training.demo.public_data import Turns

VOCABULARY = 2048
PAD, SYSTEM, USER, ASSISTANT, END = "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"

CHAT_TEMPLATE = (
    "{%- for message in messages %}{{- '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"
)


@dataclass(frozen=True)
class Encoded:
    """Token ids of one conversation; `learn[i]` is True where `ids[i]` belongs to an answer or ends one."""

    ids: list[int]
    learn: list[bool]


def train_tokenizer(texts: Iterable[str], context: int) -> PreTrainedTokenizerFast:
    """A tokenizer of `VOCABULARY` entries for models of `context` positions; every byte has a token.

    Each digit is a token of its own, so that sums can be worked out digit by digit instead of being remembered.
    """
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, SYSTEM, USER, ASSISTANT, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    wrapper: Any = PreTrainedTokenizerFast
    wrapped: PreTrainedTokenizerFast = wrapper(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[SYSTEM, USER, ASSISTANT],
        chat_template=CHAT_TEMPLATE,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )
    return wrapped


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer saved in `folder`."""
    loader: Any = AutoTokenizer
    loaded: PreTrainedTokenizerFast = loader.from_pretrained(folder, local_files_only=True)
    return loaded


def encode_turns(tokenizer: PreTrainedTokenizerFast, turns: Turns, system: str = "") -> Encoded:
    """The same ids the chat template gives, with the answers and their end tokens marked for learning."""
    ids: list[int] = []
    learn: list[bool] = []

    def add(role: str, text: str, learned: bool) -> None:
        content = [*tokenizer.encode(role + text, add_special_tokens=False), tokenizer.eos_token_id]
        ids.extend(content)
        learn.extend([False, *([learned] * (len(content) - 1))])

    if system:
        add(SYSTEM, system, False)
    for ask, answer in turns:
        add(USER, ask, False)
        add(ASSISTANT, answer, True)
    return Encoded(ids, learn)
