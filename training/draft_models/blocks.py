"""Draws the blocks of a batch that a draft of many positions learns from.

What may live here: drawing them, and how much each position counts. It may not know networks, losses or draft state.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from training.draft_models.recipe import Batch

# Shape letters: N blocks, S learned positions.

_FADE = 7.0
"""A position counts exp(-offset / this), as in DFlash (arXiv 2602.06036): it is reached if all before it were right."""


@dataclass(frozen=True)
class Blocks:
    """Blocks of a batch by their anchors: `rows` and `columns`, int64 [N]; and their positions that are learned:
    `block` and `offset`, int64 [S], `learned`, int64 [S], the row of each among the batch's learned positions."""

    rows: torch.Tensor
    columns: torch.Tensor
    block: torch.Tensor
    offset: torch.Tensor
    learned: torch.Tensor

    @property
    def weights(self) -> torch.Tensor:
        """Of each learned position, `[S]`."""
        return torch.exp(-self.offset / _FADE)


def draw_blocks(batch: Batch, length: int, share: float) -> Blocks:
    """Blocks of `length` that begin where a token is learned, at random; `share`: so many for each learned position."""
    found = batch.learn.nonzero()
    count = max(1, round(share * len(found)))
    chosen = torch.randperm(len(found), device=found.device)[:count]
    rows, columns = found[chosen].unbind(dim=1)
    # A row's last column is never learned, and stands for what lies beyond it.
    ahead = (columns[:, None] + torch.arange(length, device=columns.device)).clamp(max=batch.ids.shape[1] - 1)
    # A position behind one that is not learned is of another answer.
    learned = batch.learn[rows[:, None], ahead].cumprod(dim=1).bool()
    block, offset = learned.nonzero().unbind(dim=1)
    number = batch.learn.flatten().cumsum(0).view_as(batch.learn) - 1
    return Blocks(rows, columns, block, offset, number[rows[block], columns[block] + offset])
