"""From conversations to token ids with the answers marked, by the tokenizer's own chat template, whichever it is.

What may live here: rendering, tokenising, and finding answers in what was rendered. It may not know files, lengths or
batches.

Answers are found by rendering prefixes of a conversation: an answer reaches from the end of what a server would render
to ask for it, to the end of what is rendered with it. Where a template rewrites history (it drops earlier thoughts,
say), the whole does not begin with its prefixes; then every answer becomes a sample of its own, as a server sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from common.protocol.errors import MisuseError
from training.draft_models.records import ASSISTANT, Turn


@dataclass(frozen=True, eq=False)
class Sample:
    """One row to learn from. `ids`: int32 [n]. `answers`: bool [n], True where the token belongs to an answer."""

    ids: np.ndarray
    answers: np.ndarray

    @property
    def learned(self) -> int:
        """Tokens that can be learned: the first of a row has nothing before it."""
        return int(self.answers[1:].sum())

    def cut(self, length: int) -> Sample:
        return Sample(self.ids[:length], self.answers[:length])


@dataclass(frozen=True)
class Rendered:
    """A text for the tokenizer, with the spans [start, end) of characters that are answers."""

    text: str
    spans: tuple[tuple[int, int], ...]


class RefusedError(Exception):
    """The chat template refuses a conversation, such as one whose roles do not take turns; its text says why."""


class Chat:
    """Renders and tokenises conversations for one target. `end_tokens` end an answer; what follows is not learned."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, end_tokens: frozenset[int]) -> None:
        """Raises `MisuseError` where the tokenizer cannot do it."""
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
        """Tokenised at once, which is what makes it fast; nested as given."""
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
            # Templates may put a line break after the end token; nobody ever generates it.
            ended = np.flatnonzero(inside & ends)
            if len(ended):
                inside[ended[0] + 1 :] = False
            answers |= inside
        return Sample(tokens, answers)

    def prompt(self, turns: Sequence[Turn]) -> list[int]:
        """Token ids of turns that the target is to answer. Raises `RefusedError`."""
        tokenizer: Any = self.tokenizer
        return list(tokenizer(self.render(turns, asking=True), add_special_tokens=False)["input_ids"])

    def mark(self, turns: Sequence[Turn]) -> list[Rendered]:
        """What to learn from a conversation: one text, or one for each answer where the template rewrites history.

        Empty where there is no answer to anything. Raises `RefusedError`.
        """
        turns = answerable(turns)
        places = [index for index, turn in enumerate(turns) if turn.role == ASSISTANT]
        asked = [self.render(turns[:index], asking=True) for index in places]
        said = [self.render(turns[: index + 1]) for index in places]
        if not said:
            return []
        whole = said[-1]
        if all(whole.startswith(text) for text in (*asked, *said)):
            return [Rendered(whole, tuple((len(a), len(s)) for a, s in zip(asked, said, strict=True)))]
        return [Rendered(s, ((shared(a, s), len(s)),)) for a, s in zip(asked, said, strict=True)]

    def render(self, turns: Sequence[Turn], asking: bool = False) -> str:
        """The template's text; `asking` adds what comes before an answer. Raises `RefusedError`."""
        messages: Any = [{"role": turn.role, "content": turn.content} for turn in turns]
        tokenizer: Any = self.tokenizer
        try:
            return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=asking))
        except (TemplateError, TypeError, ValueError) as error:
            raise RefusedError(str(error)) from error


def answerable(turns: Sequence[Turn]) -> list[Turn]:
    """The turns without answers to nothing: some files open conversations with the assistant."""
    first = next((index for index, turn in enumerate(turns) if turn.role not in (ASSISTANT, "system")), len(turns))
    return [turn for index, turn in enumerate(turns) if index >= first or turn.role != ASSISTANT]


def shared(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))
