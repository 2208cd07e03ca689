"""From conversations to batches of one per row, grouped by length so that little is padding.

What may live here: tensors of one training batch, the grouping, and the pure function from step to batch, which makes
resuming exact. It may not know models or losses.

Rows are padded on the right, so causal attention needs no mask, and every conversation starts at position 0.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from transformers import PreTrainedTokenizerFast

from training.demo.corpus import Corpus
from training.demo.tokenizer import Encoded, encode_turns

ROW_LENGTHS = (64, 128, 160, 192, 224, 256, 320, 384, 512, 768)


@dataclass(frozen=True)
class ConversationBatch:
    """One batch of R rows and T columns.

    `ids`: int64 [R, T]. `learn`: bool [R, T], True where the next token is to be predicted. `targets`: int64
    [number of True in learn], those next tokens in row order.
    """

    ids: torch.Tensor
    learn: torch.Tensor
    targets: torch.Tensor

    def to(self, device: torch.device) -> ConversationBatch:
        return ConversationBatch(self.ids.to(device), self.learn.to(device), self.targets.to(device))


@dataclass
class CorpusBatches:
    """Batches of about `tokens` tokens. Each `block` of steps shares one pool of conversations, sorted by length."""

    corpus: Corpus
    tokenizer: PreTrainedTokenizerFast
    tokens: int = 4096
    block: int = 16
    row_lengths: tuple[int, ...] = ROW_LENGTHS
    ready: dict[int, list[ConversationBatch]] = field(default_factory=dict)

    def batch(self, step: int) -> ConversationBatch:
        """The batch of `step`; it depends on the corpus and the step alone."""
        first = step - step % self.block
        if first not in self.ready:
            self.ready = {first: self.make_block(first)}
        return self.ready[first][step - first]

    def make_block(self, first: int) -> list[ConversationBatch]:
        conversations = self.corpus.conversations(first)
        encoded = (encode_turns(self.tokenizer, item.turns, item.system) for item in conversations)
        pool = take(encoded, self.block * self.tokens, self.row_lengths[-1])
        groups = group(pool, self.tokens, self.row_lengths)
        chosen = random.Random(first).sample(groups, self.block)
        return [to_batch(items, columns, max(1, self.tokens // columns)) for columns, items in chosen]


def take(stream: Iterator[Encoded], tokens: int, longest: int) -> list[Encoded]:
    """Conversations of `tokens` tokens in all, passing over those longer than `longest`."""
    pool: list[Encoded] = []
    total = 0
    while total < tokens:
        item = next(stream)
        if len(item.ids) <= longest:
            pool.append(item)
            total += len(item.ids)
    return pool


def group(pool: Sequence[Encoded], tokens: int, row_lengths: Sequence[int]) -> list[tuple[int, list[Encoded]]]:
    """The pool in groups of similar length, each with the row length that holds it; rows times length stay within
    `tokens`, so there are at least as many groups as the pool has multiples of `tokens`."""
    waiting = sorted(pool, key=lambda item: -len(item.ids))
    groups = []
    while waiting:
        columns = next(length for length in row_lengths if length >= len(waiting[0].ids))
        rows = max(1, tokens // columns)
        groups.append((columns, waiting[:rows]))
        waiting = waiting[rows:]
    return groups


def to_batch(items: Sequence[Encoded], columns: int, rows: int) -> ConversationBatch:
    """`items` in `rows` rows of `columns` tokens; missing items are rows of padding."""
    ids = torch.zeros(rows, columns, dtype=torch.int64)
    learned = torch.zeros(rows, columns, dtype=torch.bool)
    for row, item in enumerate(items):
        ids[row, : len(item.ids)] = torch.tensor(item.ids)
        learned[row, : len(item.ids)] = torch.tensor(item.learn)
    learn = torch.zeros_like(learned)
    learn[:, :-1] = learned[:, 1:]
    return ConversationBatch(ids, learn, ids.roll(-1, dims=1)[learn])
