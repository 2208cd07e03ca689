"""Counts the learned tokens while a draft model trains, to choose the vocabulary of a trimmed draft head.

May not know any draft kind. The counts are part of the trained module, so that they survive a resumed run.
"""

from __future__ import annotations

import torch
from torch import distributed, nn

from common.draft_models.vocabulary import most_frequent
from common.protocol.errors import MisuseError
from training.draft_models.recipe import Batch


class TokenCounts(nn.Module):
    counts: torch.Tensor

    def __init__(self, vocabulary: int, size: int | None, end_tokens: frozenset[int]):
        """size: how many tokens the head keeps, `end_tokens` among them; None for all. Raises MisuseError for none or
        too many."""
        super().__init__()
        if size is not None and not 1 <= size <= vocabulary:
            raise MisuseError(f"--draft-vocabulary must lie between 1 and the target's {vocabulary}, not {size}")
        self.size = size
        self._end_tokens = end_tokens
        if size is not None:
            self.register_buffer("counts", torch.zeros(vocabulary, dtype=torch.long))

    def describe(self) -> str:
        """As a row of a model card."""
        return "the target's" if self.size is None else f"the {self.size} most frequent tokens of the text"

    def add(self, batch: Batch) -> None:
        """Counts a batch's learned tokens, in training and where the head is trimmed. Of several processes each counts
        the batches of all: the first one's counts are saved, and given to the others before each step."""
        if self.size is None or not self.training:
            return
        found = torch.bincount(batch.targets, minlength=len(self.counts)).to(self.counts.device)
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(found)
        self.counts += found

    def kept(self) -> torch.Tensor | None:
        """The end tokens and the most frequent ones so far, int64 ascending; None for all."""
        return None if self.size is None else most_frequent(self.counts, self.size, self._end_tokens)
