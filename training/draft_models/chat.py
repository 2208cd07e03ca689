"""Renders conversations by any tokenizer's chat template to token ids, with a mask of the answers.

What may live here: rendering, tokenising, and finding answers in the rendered text. It may not know files, lengths or
batches.

Answers are found by rendering prefixes of a conversation: an answer begins where the text with the generation prompt
ends, and ends where the text with the answer ends. Some templates rewrite history, for example by dropping earlier
thoughts; then the whole text does not begin with its prefixes, and every answer becomes a sample of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from common.models.chat_template import render
from common.protocol.errors import MisuseError
from common.protocol.plain import plain
from training.draft_models.records import ASSISTANT, Turn

TODAY = datetime(2026, 1, 1)
"""The date for templates that write today's, so that a run has the same samples when it is resumed on another day."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One row of training data. ids: int32 [n]. answers: bool [n], True where the token belongs to an answer."""

    ids: np.ndarray
    answers: np.ndarray

    @property
    def learned(self) -> int:
        """The number of tokens to learn; the first of a row is not, because it has no predecessor."""
        return int(self.answers[1:].sum())

    def cut(self, length: int) -> Sample:
        return Sample(self.ids[:length], self.answers[:length])


@dataclass(frozen=True)
class Rendered:
    """A text for the tokenizer. spans: [start, end) in characters of the answers."""

    text: str
    spans: tuple[tuple[int, int], ...]


class TemplateRefusedError(Exception):
    """The chat template refuses a conversation, for example because roles do not alternate; the message says why."""


class ChatRenderer:
    """Renders and tokenises conversations for one target. end_tokens: end an answer; tokens behind them are not
    learned."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, end_tokens: frozenset[int]) -> None:
        """Raises `MisuseError` where the tokenizer has no chat template or is not a fast one."""
        if not getattr(tokenizer, "chat_template", None):
            raise MisuseError(
                "the target's tokenizer has no chat template, so only plain text can be trained on: pass .txt files or "
                "'text' records, or a target with a chat template"
            )
        if not tokenizer.is_fast:
            raise MisuseError("the target's tokenizer has no tokenizer.json, which finding answers needs: save it anew")
        self.tokenizer = tokenizer
        self.end_tokens = np.array(sorted(end_tokens), dtype=np.int32)

    def samples(self, conversations: Sequence[Sequence[Rendered]]) -> list[list[Sample]]:
        """The samples, nested as `conversations`. Tokenises all texts in one call, which is fast."""
        texts = [rendered.text for items in conversations for rendered in items]
        if not texts:
            return [[] for _ in conversations]
        tokenizer: Any = self.tokenizer
        encoded = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True, return_attention_mask=False)
        pairs = iter(zip(encoded["input_ids"], encoded["offset_mapping"], strict=True))
        return [[self.sample(rendered, *next(pairs)) for rendered in items] for items in conversations]

    def sample(self, rendered: Rendered, ids: Sequence[int], offsets: Sequence[tuple[int, int]]) -> Sample:
        tokens = np.array(ids, dtype=np.int32)
        starts = np.array([start for start, _ in offsets], dtype=np.int64)
        answers = np.zeros(len(tokens), dtype=bool)
        ends = np.isin(tokens, self.end_tokens)
        for start, end in rendered.spans:
            inside = (starts >= start) & (starts < end)
            # Templates may put a line break after the end token, which is never generated.
            ended = np.flatnonzero(inside & ends)
            if len(ended):
                inside[ended[0] + 1 :] = False
            answers |= inside
        return Sample(tokens, answers)

    def prompt(self, turns: Sequence[Turn]) -> list[int]:
        """Token ids of the turns with the generation prompt. Raises `TemplateRefusedError`."""
        tokenizer: Any = self.tokenizer
        return list(tokenizer(self.render(turns, asking=True), add_special_tokens=False)["input_ids"])

    def mark(self, turns: Sequence[Turn]) -> list[Rendered]:
        """The texts to learn from: one for the conversation, or one for each answer where the template rewrites
        history.

        Empty where there is no answer. Raises `TemplateRefusedError`.
        """
        turns = answerable(turns)
        places = [index for index, turn in enumerate(turns) if turn.role == ASSISTANT]
        prompts = [self.render(turns[:index], asking=True) for index in places]
        answered = [self.render(turns[: index + 1]) for index in places]
        if not answered:
            return []
        whole = answered[-1]
        if all(whole.startswith(text) for text in (*prompts, *answered)):
            return [Rendered(whole, tuple((len(a), len(s)) for a, s in zip(prompts, answered, strict=True)))]
        return [Rendered(s, ((shared(a, s), len(s)),)) for a, s in zip(prompts, answered, strict=True)]

    def render(self, turns: Sequence[Turn], asking: bool = False) -> str:
        """The template's text. asking: add the generation prompt. Raises `TemplateRefusedError`."""
        messages = [{"role": turn.role, "content": turn.content} for turn in turns]
        tokenizer: Any = self.tokenizer
        try:
            template = tokenizer.get_chat_template()
            return render(template, messages, tokenizer.special_tokens_map, asking=asking, now=TODAY)
        # A template is a program, which may raise anything.
        except Exception as error:
            raise TemplateRefusedError(str(error)) from error


def answerable(turns: Sequence[Turn]) -> list[Turn]:
    """The turns without answers before the first question: some files begin conversations with the assistant."""
    first = next((index for index, turn in enumerate(turns) if turn.role not in (ASSISTANT, "system")), len(turns))
    return [turn for index, turn in enumerate(turns) if index >= first or turn.role != ASSISTANT]


def check_tokens(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int] | np.ndarray, vocabulary: int | None, where: str
) -> None:
    """Raises `MisuseError` for a token that the target has no embedding for, as where tokens were added to a tokenizer
    alone. vocabulary: the number of tokens with one; None for any."""
    highest = int(np.max(ids, initial=0))
    if vocabulary is not None and highest >= vocabulary:
        names: Any = tokenizer
        name = plain(str(names.convert_ids_to_tokens(highest)))
        raise MisuseError(
            f"{where}: token {highest} ('{name}') is beyond the {vocabulary} that the target has: leave it out of the "
            "data, or choose a target that fits its tokenizer"
        )


def shared(one: str, other: str) -> int:
    """The length of the common prefix, in characters."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))
