"""From logits to the distribution that tokens are sampled from: transformers' own processors, in its order.

At temperature 0 only the repetition penalty is applied: the others never change the argmax.
"""

from collections.abc import Sequence

import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from common.protocol.sampling import Sampling


class Processors:
    def __init__(self, sampling: Sampling):
        self.penalise = sampling.repetition_penalty != 1.0
        """Whether processing depends on the tokens before a row."""
        self._each = LogitsProcessorList()
        if self.penalise:
            self._each.append(RepetitionPenaltyLogitsProcessor(float(sampling.repetition_penalty)))
        if sampling.temperature > 0:
            self._each += _warpers(sampling)

    def __call__(self, logits: torch.Tensor, before: Sequence[Sequence[int]]) -> torch.Tensor:
        """Processed logits, float32 as `logits [rows, vocabulary]`, -inf where filtered out.

        `before`: all tokens before each row's next one; ignored unless `penalise`.
        """
        if not self._each:
            return logits.float()
        ids = _aligned(before, logits.device) if self.penalise else torch.empty(0)
        processed: torch.Tensor = self._each(ids, logits.float())  # type: ignore[arg-type]
        return processed


def _warpers(sampling: Sampling) -> LogitsProcessorList:
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
