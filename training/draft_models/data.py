"""Makes samples of the right length from records, holds prompts out for measuring, and counts what was left out.

What may live here: windows of plain text, truncation, the held-out share, the counts. It may not know file formats,
chat templates or batches.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from common.counted import counted
from common.protocol.errors import MisuseError
from training.draft_models.chat import ChatRenderer, Sample, TemplateRefusedError, answerable, check_tokens
from training.draft_models.records import ASSISTANT, ConversationRecord, Record, TextRecord, Turn, digest

HELD_OUT_SHARE = 0.02
TEXT_PROMPT_TOKENS = 64
"""The length of the prompt of a held-out window of plain text; at most half of the window."""

BLOCK = 256
"""The number of texts that are tokenised in one call."""

Render = Callable[[ChatRenderer, Sequence[ConversationRecord]], list[list[Sample]]]
"""Makes the samples of each conversation; those that a template refuses have none."""


@dataclass(frozen=True)
class Counts:
    """Counts of the data. Samples are counted after windows were made. tokens: of all samples. cut: truncated samples.
    dropped: samples without an answer within the longest length. unusable: conversations without any sample.
    unmeasured: held-out prompts of the longest length and more."""

    conversations: int = 0
    windows: int = 0
    samples: int = 0
    tokens: int = 0
    learned: int = 0
    held_out: int = 0
    unusable: int = 0
    cut: int = 0
    dropped: int = 0
    unmeasured: int = 0

    def sentences(self, max_length: int) -> list[str]:
        """Sentences for people: one on what is used, and one on each reason for which data was left out."""
        said = [
            f"{counted(self.samples, 'sample')} with {self.tokens:,} tokens, {self.learned:,} of them learned, from "
            f"{counted(self.conversations, 'conversation')} and {counted(self.windows, 'window')} of text; "
            f"{self.held_out:,} held out"
        ]
        if self.cut or self.dropped:
            said.append(
                f"{self.cut + self.dropped:,} samples do not fit into {max_length:,} tokens: {self.cut:,} were cut, "
                f"{self.dropped:,} left out because no answer begins before that"
            )
        if self.unusable:
            said.append(f"{self.unusable:,} conversations were left out: refused by the chat template, or no answer")
        if self.unmeasured:
            prompts = counted(self.unmeasured, "held-out prompt")
            said.append(f"{prompts} not measured on: {max_length:,} tokens leave no room for an answer")
        return said


@dataclass(frozen=True)
class Data:
    """samples: to train on. prompts: token ids, to measure on, each once, in an order that depends on the seed."""

    samples: list[Sample]
    prompts: list[list[int]]
    counts: Counts


@dataclass(frozen=True)
class DataSettings:
    """max_length: of a sample, in tokens. held_out: whether to hold a share of the data out for measuring.
    vocabulary: the number of tokens that the target has; None for any."""

    max_length: int
    seed: int
    held_out: bool
    vocabulary: int | None = None


def load_data(
    records: Sequence[Record],
    tokenizer: PreTrainedTokenizerBase,
    end_tokens: frozenset[int],
    settings: DataSettings,
    render: Render | None = None,
) -> Data:
    """The data to train on and, with `settings.held_out`, to measure on.

    render: makes the samples of conversations; by default their own answers are learned. Raises `MisuseError` where no
    sample is left, the tokenizer has no chat template for conversations, or makes tokens that the target does not have.
    """
    conversations = [record for record in records if isinstance(record, ConversationRecord)]
    chat = ChatRenderer(tokenizer, end_tokens) if conversations else None
    windows = list(text_windows(tokenizer, records, settings.max_length, settings.vocabulary))
    # By what is measured on: answers and texts that go on differently are held out with their prompt.
    names = [digest([[turn.role, turn.content] for turn in asked(record)]) for record in conversations]
    names += [digest(window_prompt(window)) for window in windows]
    apart = held_out(names, settings.seed) if settings.held_out else []
    first_window, out = len(conversations), set(apart)
    kept = [item for index, item in enumerate(conversations) if index not in out]
    rendered = (render or answers_of)(chat, kept) if chat else []
    for record, items in zip(kept, rendered, strict=True):
        for sample in items:
            check_tokens(tokenizer, sample.ids, settings.vocabulary, record.where)
    samples = [window for index, window in enumerate(windows, first_window) if index not in out]
    fitting, counts = fit([sample for items in rendered for sample in items], settings.max_length)
    samples += fitting
    prompts = [
        prompt_of(conversations[index], chat, settings.vocabulary)
        if index < first_window
        else window_prompt(windows[index - first_window])
        for index in apart
    ]
    distinct = [list(prompt) for prompt in dict.fromkeys(map(tuple, prompts)) if prompt]
    measured = answerable_within(settings.max_length, distinct)
    counts = replace(
        counts,
        conversations=len(conversations),
        windows=len(windows),
        samples=len(samples),
        tokens=sum(len(sample.ids) for sample in samples),
        learned=sum(sample.learned for sample in samples),
        held_out=len(apart),
        unusable=sum(not items for items in rendered),
        unmeasured=len(distinct) - len(measured),
    )
    if not samples:
        raise MisuseError(f"the data leaves nothing to train on: {'; '.join(counts.sentences(settings.max_length))}")
    return Data(samples, measured, counts)


def answerable_within(max_length: int, prompts: Sequence[list[int]]) -> list[list[int]]:
    """The prompts that leave room for an answer, as those of samples do: others take memory that training does not."""
    return [prompt for prompt in prompts if len(prompt) < max_length]


def fit(samples: Sequence[Sample], max_length: int) -> tuple[list[Sample], Counts]:
    """The samples truncated to `max_length`, without those that then have nothing to learn, and the counts of both."""
    pairs = [(sample, sample.cut(max_length)) for sample in samples]
    fitting = [(before, after) for before, after in pairs if after.learned]
    cut = sum(len(after.ids) < len(before.ids) for before, after in fitting)
    return [after for _, after in fitting], Counts(cut=cut, dropped=len(pairs) - len(fitting))


def answers_of(chat: ChatRenderer, conversations: Sequence[ConversationRecord]) -> list[list[Sample]]:
    """Samples with the data's own answers."""
    samples: list[list[Sample]] = []
    for start in range(0, len(conversations), BLOCK):
        block = []
        for conversation in conversations[start : start + BLOCK]:
            try:
                block.append(chat.mark(conversation.turns))
            except TemplateRefusedError:
                block.append([])
        samples += chat.samples(block)
    return samples


def text_windows(
    tokenizer: PreTrainedTokenizerBase, records: Sequence[Record], max_length: int, vocabulary: int | None = None
) -> Iterator[Sample]:
    """Consecutive texts packed into windows of at most `max_length` tokens, of which all are learned.

    A window ends before a text that would not fit completely; a text that is longer than a window is divided. A window
    of one token has nothing to learn and is left out. Raises `MisuseError` where all would be such ones, and for tokens
    that a target of `vocabulary` tokens does not have.
    """
    if max_length < 2:
        raise MisuseError(f"samples of {max_length} token leave nothing to learn: choose a --max-length of at least 2")
    encode: Any = tokenizer
    texts = [record for record in records if isinstance(record, TextRecord)]
    opening = [token for token in encode("")["input_ids"][:1] if token == tokenizer.bos_token_id]
    room = max_length - len(opening)
    kept: list[int] = []

    def windows(tokens: list[int]) -> Iterator[Sample]:
        """Of as many tokens as there is room for, and one with the rest."""
        for start in range(0, len(tokens), room):
            ids = np.array(opening + tokens[start : start + room], dtype=np.int32)
            window = Sample(ids, np.arange(len(ids)) >= len(opening))
            if window.learned:
                yield window

    for start in range(0, len(texts), BLOCK):
        block = texts[start : start + BLOCK]
        encoded = encode([text.content + "\n\n" for text in block], add_special_tokens=False)["input_ids"]
        for text, ids in zip(block, encoded, strict=True):
            check_tokens(tokenizer, opening + ids, vocabulary, text.where)
            if len(kept) + len(ids) > room:
                yield from windows(kept)
                kept = []
            kept += ids
            # What does not fill a window shares it with the next text.
            filled = max(0, len(kept) - 1) // room * room
            yield from windows(kept[:filled])
            del kept[:filled]
    yield from windows(kept)


def held_out(names: Sequence[str], seed: int) -> list[int]:
    """Indices of the records to hold out: all records of so many names that they are `HELD_OUT_SHARE`, and at least
    one name where there are several.

    They are chosen by a hash of the name, so that equal ones stay together and added data changes few choices; a name
    of more records than that share only where there is no other.
    """
    wanted = max(1, round(len(names) * HELD_OUT_SHARE))
    keys = [hashlib.sha256(f"{seed} {name}".encode()).hexdigest() for name in names]
    times = Counter(keys)
    chosen, found = set[str](), 0
    # All but one, so that something is left to train on.
    for key in sorted(times, key=lambda key: (times[key] > wanted, key))[:-1]:
        if found >= wanted:
            break
        chosen.add(key)
        found += times[key]
    return sorted((index for index, key in enumerate(keys) if key in chosen), key=lambda index: keys[index])


def held_out_prompts(
    records: Sequence[Record],
    tokenizer: PreTrainedTokenizerBase,
    end_tokens: frozenset[int],
    settings: DataSettings,
) -> tuple[list[list[int]], int]:
    """Prompts of the records of a separate file that leave room for an answer, and the number of those that do not.
    Raises `MisuseError` as `load_data` does."""
    conversations = [record for record in records if isinstance(record, ConversationRecord)]
    chat = ChatRenderer(tokenizer, end_tokens) if conversations else None
    prompts = [prompt_of(conversation, chat, settings.vocabulary) for conversation in conversations]
    windows = text_windows(tokenizer, records, settings.max_length, settings.vocabulary)
    prompts = [prompt for prompt in (*prompts, *map(window_prompt, windows)) if prompt]
    measured = answerable_within(settings.max_length, prompts)
    return measured, len(prompts) - len(measured)


def prompt_of(conversation: ConversationRecord, chat: ChatRenderer | None, vocabulary: int | None) -> list[int]:
    """Token ids before the first answer, with the generation prompt; empty where the template refuses."""
    if chat is None:
        return []
    try:
        prompt = chat.prompt(asked(conversation))
    except TemplateRefusedError:
        return []
    check_tokens(chat.tokenizer, prompt, vocabulary, conversation.where)
    return prompt


def asked(conversation: ConversationRecord) -> list[Turn]:
    """The turns before the first answer."""
    return list(takewhile(lambda turn: turn.role != ASSISTANT, answerable(conversation.turns)))


def window_prompt(window: Sample) -> list[int]:
    return [int(token) for token in window.ids[: min(TEXT_PROMPT_TOKENS, (len(window.ids) + 1) // 2)]]
