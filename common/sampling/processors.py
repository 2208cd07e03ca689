"""From logits to the distribution that tokens are sampled from: transformers' own processors where it has them.

At temperature 0 only what may change the argmax is applied: bias, penalties and the answer's constraint.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from common.protocol.constraint import AnswerConstraint
from common.protocol.sampling import Sampling
from common.sampling.preceding import Preceding, Text
from common.transformers_import import IMPORTING

if TYPE_CHECKING:
    from transformers import LogitsProcessorList


_NO_TOKENS: Any = torch.empty(0)  # for transformers' filters, which read none


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
        # The presence and frequency penalties of the last text, `[columns + 1]`: a server's rows come one by one.
        self._penalised: Text | None = None
        self._text_row = torch.empty(0)

    def over(self, columns: torch.Tensor) -> "Processors":
        """The same for logits whose columns are these tokens."""
        return Processors(self._sampling, self._prompt_length, self._constraint, columns)

    def __call__(self, logits: torch.Tensor, before: Preceding) -> torch.Tensor:
        """Processed logits, float32 as `logits [rows, columns]`, -inf where filtered out. `before` is ignored unless
        `needs_tokens`."""
        scores = logits.float()
        if self._sampling.logit_bias:
            if self._bias is None:
                self._bias = self._biases(scores)
            scores = scores + self._bias
        if self._penalty:
            seen: Any = self._seen(before, scores.shape[-1]).to(scores.device)
            scores = self._penalty(seen, scores)
        if self._sampling.presence_penalty or self._sampling.frequency_penalty:
            scores = scores - self._repeated(before, scores)
        if self._constraint is not None:
            allowed = self._allowed(self._constraint, before, scores.shape[-1])
            scores = scores.masked_fill(~allowed.to(scores.device), -torch.inf)
        return self._warpers(_NO_TOKENS, scores) if self._warpers else scores

    def _columns_of(self, tokens: Iterable[int]) -> list[int]:
        """Columns of tokens; one beyond the last for a token that has none, which transformers leaves alone."""
        if self._columns is None:
            return list(tokens)
        return [self._column_of.get(token, len(self._column_of)) for token in tokens]

    def _seen(self, before: Preceding, width: int) -> torch.Tensor:
        """Columns of the tokens before each row, `[rows, tokens]`: any may come again, which counts no more."""
        text = before.text.distinct
        text_columns = self._columns_of(text if self._columns is None else self._column_of.keys() & text)
        longest = max(map(len, before.paths))
        paths = [[*self._columns_of(path), *[width] * (longest - len(path))] for path in before.paths]
        shared = torch.tensor(text_columns, dtype=torch.int64).expand(len(paths), -1)
        return torch.cat([shared, torch.tensor(paths, dtype=torch.int64)], dim=1)

    def _repeated(self, before: Preceding, like: torch.Tensor) -> torch.Tensor:
        """OpenAI's presence and frequency penalty, `[rows, columns]`."""
        start, width = self._prompt_length, like.shape[-1]
        said = before.text.said(start)
        if before.text is not self._penalised:
            # One column more, for tokens without any.
            self._text_row = torch.zeros(width + 1, dtype=like.dtype)
            self._put(self._text_row, said.keys(), self._penalties(said.values()))
            self._penalised = before.text
        rows = self._text_row.repeat(len(before.paths), 1)
        for row, path in zip(rows, before.paths_from(start), strict=True):
            own = Counter(path)
            self._put(row, own.keys(), self._penalties(said.get(token, 0) + count for token, count in own.items()))
        return rows[:, :width].to(like.device)

    def _penalties(self, counts: Iterable[int]) -> list[float]:
        return [self._sampling.presence_penalty + count * self._sampling.frequency_penalty for count in counts]

    def _biases(self, like: torch.Tensor) -> torch.Tensor:
        """`[columns]`."""
        width = like.shape[-1]
        row = torch.zeros(width + 1, dtype=like.dtype)
        self._put(row, *zip(*self._sampling.logit_bias, strict=True))
        return row[:width].to(like.device)

    def _put(self, rows: torch.Tensor, tokens: Iterable[int], values: Sequence[float]) -> None:
        """Writes a value into each token's column of `rows [..., columns + 1]`, or into the last one where it has
        none."""
        columns = torch.tensor(self._columns_of(tokens), dtype=torch.int64).clamp(max=rows.shape[-1] - 1)
        rows[..., columns] = torch.tensor(values, dtype=torch.float64).to(rows.dtype)

    def _allowed(self, constraint: AnswerConstraint, before: Preceding, width: int) -> torch.Tensor:
        """`[rows, width]`. A draft model may have fewer logits than its target, or more for padding."""
        said = before.text.tokens[self._prompt_length :]
        answers = ((*said, *path) for path in before.paths_from(self._prompt_length))
        allowed = torch.stack([torch.from_numpy(constraint.allowed(answer)) for answer in answers])
        if self._columns is not None:
            return allowed[:, self._columns.cpu()]
        return functional.pad(allowed[:, :width], (0, max(0, width - allowed.shape[1])))


def _penalty(sampling: Sampling) -> "LogitsProcessorList | None":
    if sampling.repetition_penalty == 1.0:
        return None
    # Only now, as below: most answers are greedy, and this import takes a second.
    with IMPORTING:
        from transformers import LogitsProcessorList, RepetitionPenaltyLogitsProcessor

    return LogitsProcessorList([RepetitionPenaltyLogitsProcessor(float(sampling.repetition_penalty))])


def _warpers(sampling: Sampling) -> "LogitsProcessorList | None":
    if sampling.temperature <= 0:
        return None
    with IMPORTING:
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
