"""Target-layer inference for all positions at once, as training needs it: the frozen last layers of the target run over
predicted hidden states, with attention to the target's own K/V up to each query's newest state and to the predictions'
K/V beyond.

What may live here: the tail, the attention of such a forward and the call that uses it. It may not know how hidden
states are predicted, nor any loss, nor how a family scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from transformers import PreTrainedModel

from common.draft_models.tail import load_tail, write_tail
from common.models.attention import run_layers, take_over
from common.models.attention_kernels import attention
from common.models.layer_attention import Scoring
from training.draft_models.features import FrozenTarget
from training.writing import written

# Shape letters: R rows, T columns, E hidden size, N layers, X width of a layer's keys, H query heads, K key/value
# heads, D their size.


@dataclass(frozen=True)
class TwoSources:
    """The attention of all layers. `known`: [N, R, T, 2 * X], the target's keys after RoPE, then its values.
    `sees_known` and `sees_predicted`: bool [R, T, T], which of the target's and of the predictions' keys each query
    sees; together at least itself."""

    known: torch.Tensor
    sees_known: torch.Tensor
    sees_predicted: torch.Tensor

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scoring: Scoring
    ) -> torch.Tensor:
        """From `query` `[R, H, T, D]`, `key` and `value` `[R, K, T, D]` to `[R * T, H * D]`."""
        known = self.known[layer].to(key.dtype)
        by_head = (*known.shape[:-1], key.shape[1], key.shape[3])
        known_keys, known_values = (half.reshape(by_head).transpose(1, 2) for half in known.chunk(2, dim=-1))
        repeats = query.shape[1] // key.shape[1]
        keys = torch.cat([known_keys, key], dim=2).repeat_interleave(repeats, dim=1)
        values = torch.cat([known_values, value], dim=2).repeat_interleave(repeats, dim=1)
        sinks = None if scoring.sinks_H is None else scoring.sinks_H[:, None, None]
        result = attention(query, keys, values, self._mask(query, scoring), scoring, sinks)
        return result.transpose(1, 2).flatten(2).flatten(0, 1)

    def _mask(self, query: torch.Tensor, scoring: Scoring) -> torch.Tensor:
        """Additive `[R, 1, T, 2 * T]`."""
        positions = torch.arange(query.shape[2], device=query.device)
        near = torch.ones_like(self.sees_known[0])
        if scoring.sliding_window is not None:
            near &= positions[:, None] - positions[None] < scoring.sliding_window
        if scoring.chunk is not None:
            near &= positions[:, None] // scoring.chunk == positions[None] // scoring.chunk
        seen = torch.cat([self.sees_known & near, self.sees_predicted & near], dim=-1)[:, None]
        return torch.zeros(seen.shape, dtype=query.dtype, device=query.device).masked_fill(~seen, -torch.inf)


def through_tail(tail: PreTrainedModel, hidden: torch.Tensor, sources: TwoSources) -> torch.Tensor:
    """The last hidden state `[R, T, E]`, after the final norm, from the tail's input `hidden [R, T, E]`.

    `tail` has as many layers as `sources.known`; from here on only such forwards and passes may run it.
    """
    take_over(tail)
    columns = hidden.shape[1]
    positions = torch.arange(columns, device=hidden.device)[None].expand(len(hidden), columns)
    return run_layers(tail, sources, positions, hidden)


def frozen_tail(target: FrozenTarget, depth: int) -> PreTrainedModel:
    """The target's embedding, last `depth` layers and head, as a client loads them."""
    with TemporaryDirectory() as folder:
        with written("a temporary copy of the target's last layers", "make room there, or name a folder in TMPDIR"):
            write_tail(target.directory, depth, Path(folder))
        return load_tail(Path(folder), depth, target.device, target.model.dtype)
