"""Runs one draft layer on its own output for several steps in training, for all positions at once: the attention of
"training-time test" (EAGLE-3, Li et al. 2025, arXiv 2503.01840).

What may live here: that attention. It may not know networks, losses or features.
"""

from __future__ import annotations

import torch

# Shape letters: B rows, T columns, H query heads, K key/value heads, D head dimension, N earlier steps.


class FeedbackAttention:
    """An `Attention` to call once for each step. In the first, query t attends to columns up to t; in step n, where it
    stands n positions further, to what it attended to in the first, and to its own keys of all steps since.

    So column t of step n is the row that a drafter computes n positions behind the newest state, which is that of t.
    """

    def __init__(self) -> None:
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []

    def __call__(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """`[B, T, H * D]` from queries `[B, H, T, D]`, and this step's keys and values `[B, K, T, D]`."""
        repeats = queries.shape[1] // keys.shape[1]
        self._keys.append(keys.repeat_interleave(repeats, 1))
        self._values.append(values.repeat_interleave(repeats, 1))
        queries = queries * queries.shape[-1] ** -0.5
        columns = queries.shape[2]
        future = torch.ones(columns, columns, dtype=torch.bool, device=queries.device).triu(1)
        scores = (queries @ self._keys[0].transpose(-1, -2)).masked_fill(future, -torch.inf)
        own = [(queries * earlier).sum(-1, keepdim=True) for earlier in self._keys[1:]]
        weights = torch.cat([scores, *own], dim=-1).float().softmax(-1).to(queries.dtype)
        result = weights[..., :columns] @ self._values[0]
        for step, earlier in enumerate(self._values[1:], start=columns):
            result = result + weights[..., step, None] * earlier
        return result.transpose(1, 2).flatten(2)
