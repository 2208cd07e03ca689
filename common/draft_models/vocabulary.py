"""A draft head over the most frequent tokens only, as in EAGLE-3 (Li et al. 2025, arXiv 2503.01840): proposing a rare
token is seldom worth the cost of its row of the head.

What may live here: choosing the tokens, and trimming the head to them. It may not know networks or drafting.
"""

from collections.abc import Collection

import torch
from torch import nn

from common.models.parts import projection_of, with_projection
from common.weight_only.layers import QuantisedLinear

KEPT_TOKENS = "kept_tokens"
"""The tensor of a draft's directory that lists its tokens: int64 [kept], ascending; absent where it has all."""


def most_frequent(counts: torch.Tensor, size: int, end_tokens: Collection[int]) -> torch.Tensor:
    """The `size` likeliest tokens by `counts` int64 [vocabulary], ascending; the lower id where counts are equal.

    The end tokens count as the likeliest: plain text has none, and a draft that writes alone would never end.
    """
    ranked = counts.clone()
    ranked[[token for token in end_tokens if token < len(counts)]] = torch.iinfo(counts.dtype).max
    order = ranked.argsort(descending=True, stable=True)
    return order[:size].sort().values


def trim_head(head: nn.Module, kept: torch.Tensor | None) -> nn.Module:
    """The rows of a `head` for the `kept` tokens; the head itself, uncopied, where that is None."""
    if kept is None:
        return head
    whole = projection_of(head)
    if isinstance(whole, QuantisedLinear):
        return with_projection(head, whole.trimmed(kept))
    weight = whole.get_parameter("weight")
    rows = kept.to(weight.device)
    has_bias = getattr(whole, "bias", None) is not None
    # Not initialised, which would take as long as the product with a few rows.
    trimmed = nn.Linear(weight.shape[1], len(kept), has_bias, device="meta", dtype=weight.dtype)
    trimmed.to_empty(device=weight.device).requires_grad_(False)
    trimmed.weight.copy_(weight.detach().index_select(0, rows))
    if trimmed.bias is not None:
        trimmed.bias.copy_(whole.get_parameter("bias").detach().index_select(0, rows))
    return with_projection(head, trimmed)
