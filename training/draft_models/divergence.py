"""How far a draft's distributions are from the target's, where there are more positions than logits fit into memory.

What may live here: that divergence. It may not know networks, batches or how much a position counts.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import kl_div, log_softmax
from torch.utils.checkpoint import checkpoint

# Shape letters: S positions, E hidden size, V vocabulary, P learned positions.

_POSITIONS = 256
"""Whose logits are held at once. A gradient computes them again, as several numbers for each token and position would
be most of what a training keeps."""


def divergences(head: nn.Module, read: torch.Tensor, logits: torch.Tensor, learned: torch.Tensor) -> torch.Tensor:
    """`[..., S]`: of what `head` makes of `read [..., S, E]`, the Kullback-Leibler divergence from the target's
    distributions, whose `logits [P, V]` are in the rows `learned [S]`."""
    parts = zip(torch.split(read, _POSITIONS, dim=-2), torch.split(learned, _POSITIONS), strict=True)
    each = [checkpoint(_divergences, head, part, logits, rows, use_reentrant=False) for part, rows in parts]
    return torch.cat(each, dim=-1)


def _divergences(head: nn.Module, read: torch.Tensor, logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    wanted, given = (log_softmax(each.float(), dim=-1) for each in (logits[rows], head(read)))
    return kl_div(given, wanted, reduction="none", log_target=True).sum(dim=-1)
