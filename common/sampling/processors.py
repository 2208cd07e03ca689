"""From logits to the distribution that tokens are sampled from: transformers' own processors where it has them.

At temperature 0 only what may change the argmax is applied: bias, penalties and the answer's constraint.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional

from common.protocol.constraint import AnswerConstraint
from common.protocol.sampling import Sampling

if TYPE_CHECKING:
    from transformers import LogitsProcessorList


_NO_TOKENS: Any = torch.empty(0)


class Processors:
    """`columns`: the tokens of the logits' columns, None where these are the target's vocabulary. `prompt_length`:
    where the answer begins, of which `constraint`, presence and frequency penalty know."""

    def __init__(
        self,
        sampling: Sampling,
        prompt_length: int = 0,
        constraint: AnswerConstraint | None = None,
        columns: torch.Tensor | None = None,
    ):
        self.needs_tokens = sampling.looks_back or constraint is not None
        """Whether processing depends on the tokens before a row."""
        self.keep_argmax = not self.needs_tokens and not sampling.logit_bias and not sampling.temperature
        """Whether the likeliest token stays what it is."""
        self._sampling = sampling
        self._prompt_length = prompt_length
        self._constraint = constraint
        self._columns = columns
        self._column_of = {token: column for column, token in enumerate([] if columns is None else columns.tolist())}
        self._penalty, self._warpers = _penalty(sampling), _warpers(sampling)
        self._bias: torch.Tensor | None = None  # [columns], once it is known how many there are

    def over(self, columns: torch.Tensor) -> "Processors":
        """The same for logits whose columns are these tokens."""
        return Processors(self._sampling, self._prompt_length, self._constraint, columns)

    def __call__(self, logits: torch.Tensor, before: Sequence[Sequence[int]]) -> torch.Tensor:
        """Processed logits, float32 as `logits [rows, columns]`, -inf where filtered out.

        `before`: all tokens before each row's next one; ignored unless `needs_tokens`.
        """
        scores = logits.float()
        if self._sampling.logit_bias:
            if self._bias is None:
                self._bias = self._spread(*zip(*self._sampling.logit_bias, strict=True), like=scores)
            scores = scores + self._bias
        if self._penalty:
            ids: Any = _aligned([self._distinct(tokens) for tokens in before], scores.device)
            scores = self._penalty(ids, scores)
        if self._sampling.presence_penalty or self._sampling.frequency_penalty:
            scores = scores - torch.stack([self._repeated(tokens, scores) for tokens in before])
        if self._constraint is not None:
            width = scores.shape[-1]
            allowed = torch.stack([self._allowed(self._constraint, tokens, width) for tokens in before])
            scores = scores.masked_fill(~allowed.to(scores.device), -torch.inf)
        return self._warpers(_NO_TOKENS, scores) if self._warpers else scores

    def _columns_of(self, tokens: Sequence[int]) -> Sequence[int]:
        """Columns of tokens; one beyond the last for a token that has none, which transformers leaves alone."""
        return (
            tokens if self._columns is None else [self._column_of.get(token, len(self._column_of)) for token in tokens]
        )

    def _distinct(self, tokens: Sequence[int]) -> Sequence[int]:
        """Columns of the tokens, each once, because every row of every level has the whole text."""
        if self._columns is None:
            return list(set(tokens))
        return [self._column_of[token] for token in self._column_of.keys() & set(tokens)] or [len(self._column_of)]

    def _repeated(self, tokens: Sequence[int], like: torch.Tensor) -> torch.Tensor:
        """OpenAI's presence and frequency penalty of one row, `[columns]`."""
        said, counts = np.unique(np.array(tokens[self._prompt_length :], np.int64), return_counts=True)
        penalties = self._sampling.presence_penalty + counts * self._sampling.frequency_penalty
        return self._spread(said.tolist(), penalties, like=like)

    def _spread(self, tokens: Sequence[int], values: Any, *, like: torch.Tensor) -> torch.Tensor:
        """`[columns]`: the value of each column's token, 0 where it has none. `values`: one for each of the tokens."""
        width = like.shape[-1]
        # One column more, for tokens without any.
        spread = torch.zeros(width + 1, dtype=like.dtype)
        indices = torch.tensor(self._columns_of(tokens), dtype=torch.int64).clamp(max=width)
        spread[indices] = torch.as_tensor(np.asarray(values), dtype=like.dtype)
        return spread[:width].to(like.device)

    def _allowed(self, constraint: AnswerConstraint, tokens: Sequence[int], width: int) -> torch.Tensor:
        """`[width]`. A draft model may have fewer logits than its target, or more for padding."""
        allowed = torch.from_numpy(constraint.allowed(tokens[self._prompt_length :]))
        if self._columns is not None:
            return allowed[self._columns.cpu()]
        return functional.pad(allowed[:width], (0, max(0, width - len(allowed))))


def _penalty(sampling: Sampling) -> "LogitsProcessorList | None":
    if sampling.repetition_penalty == 1.0:
        return None
    # Only now, as below: most answers are greedy, and this import takes a second.
    from transformers import LogitsProcessorList, RepetitionPenaltyLogitsProcessor

    return LogitsProcessorList([RepetitionPenaltyLogitsProcessor(float(sampling.repetition_penalty))])


def _warpers(sampling: Sampling) -> "LogitsProcessorList | None":
    if sampling.temperature <= 0:
        return None
    from transformers import (
        LogitsProcessorList,
        MinPLogitsWarper,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    warpers = LogitsProcessorList()
    if sampling.temperature != 1.0:
        warpers.append(TemperatureLogitsWarper(float(sampling.temperature)))
    if sampling.top_k:
        warpers.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1.0:
        warpers.append(TopPLogitsWarper(float(sampling.top_p)))
    if sampling.min_p > 0.0:
        warpers.append(MinPLogitsWarper(float(sampling.min_p)))
    return warpers


def _aligned(before: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
    """Sequences of several lengths as one tensor, padded with their last token: repetitions do not count again."""
    longest = max(map(len, before))
    rows = [[*tokens, *[tokens[-1]] * (longest - len(tokens))] for tokens in before]
    return torch.tensor(rows, device=device)
