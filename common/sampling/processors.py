"""From logits to the distribution that tokens are sampled from: transformers' own processors, in its order.

At temperature 0 only the repetition penalty is applied: the others never change the argmax.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from common.protocol.sampling import Sampling

if TYPE_CHECKING:
    from transformers import LogitsProcessorList


class Processors:
    def __init__(self, sampling: Sampling):
        self.penalise = sampling.repetition_penalty != 1.0
        """Whether processing depends on the tokens before a row."""
        self._each = _processors(sampling) if self.penalise or sampling.temperature > 0 else None

    def __call__(self, logits: torch.Tensor, before: Sequence[Sequence[int]]) -> torch.Tensor:
        """Processed logits, float32 as `logits [rows, vocabulary]`, -inf where filtered out.

        `before`: all tokens before each row's next one; ignored unless `penalise`.
        """
        if not self._each:  # which an empty list is too
            return logits.float()
        ids = _aligned(before, logits.device) if self.penalise else torch.empty(0)
        processed: torch.Tensor = self._each(ids, logits.float())  # type: ignore[arg-type]
        return processed


def _processors(sampling: Sampling) -> "LogitsProcessorList":
    # Only now: most answers are greedy, and this import takes a second.
    from transformers import (
        LogitsProcessorList,
        MinPLogitsWarper,
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    processors = LogitsProcessorList()
    if sampling.repetition_penalty != 1.0:
        processors.append(RepetitionPenaltyLogitsProcessor(float(sampling.repetition_penalty)))
    if sampling.temperature <= 0:
        return processors
    if sampling.temperature != 1.0:
        processors.append(TemperatureLogitsWarper(float(sampling.temperature)))
    if sampling.top_k:
        processors.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1.0:
        processors.append(TopPLogitsWarper(float(sampling.top_p)))
    if sampling.min_p > 0.0:
        processors.append(MinPLogitsWarper(float(sampling.min_p)))
    return processors


def _aligned(before: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
    """Sequences of several lengths as one tensor, padded with their last token: repetitions do not count again."""
    longest = max(map(len, before))
    rows = [[*tokens, *[tokens[-1]] * (longest - len(tokens))] for tokens in before]
    return torch.tensor(rows, device=device)
