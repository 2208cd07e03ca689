"""The common base of draft heads that read the target's last hidden state and the tokens of a path after it: Hydra's
and Clover's.

What may live here: the layer that may stand before the heads, and what every such network offers. It may not know how a
head computes, files, trees, slots or losses.
"""

from abc import ABC, abstractmethod
from typing import Any, Protocol

import torch
from torch import nn

from common.draft_models.layers import Attention, DecoderLayer, LayerShape, RmsNorm

# Shape letters: B rows, T columns, S sources, E hidden size, K tokens of a path, V vocabulary.


class PathHeadsConfig(Protocol):
    """`heads`: the most tokens of a path, so the deepest level of a tree. `layer`: the shape of the layer before the
    heads, None for none."""

    @property
    def hidden(self) -> int: ...

    @property
    def vocabulary(self) -> int: ...

    @property
    def heads(self) -> int: ...

    @property
    def layer(self) -> LayerShape | None: ...


class PrefixLayer(nn.Module):
    """One decoder layer over the target's last hidden states, and a norm: it prepares them for predicting several
    tokens ahead, which they were not trained for."""

    def __init__(self, shape: LayerShape):
        super().__init__()
        self.layer = DecoderLayer(shape)
        self.norm = RmsNorm(shape.hidden, shape.epsilon)

    def keys_values(self, hidden: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`[B, K, S, D]` each, of hidden states `[B, S, E]` at `positions [B, S]`."""
        return self.layer.keys_values(hidden, positions)

    def forward(
        self,
        hidden: torch.Tensor,
        positions: torch.Tensor,
        attention: Attention,
        keys_values: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """`[B, T, E]` from `hidden [B, T, E]`, over `keys_values`, by default its own."""
        out: torch.Tensor = self.norm(self.layer(hidden, positions, attention, keys_values))
        return out


class PathHeads(nn.Module, ABC):
    """Heads that depend on the path: after the hidden state of position i, and the tokens at i + 1 to i + K, head
    K - 1 predicts the token at i + K + 1. Position i + 1 is the target's own choice at i."""

    def __init__(self, config: PathHeadsConfig):
        super().__init__()
        self.config: Any = config
        self.prefix = None if config.layer is None else PrefixLayer(config.layer)

    def begin_from(self, head: torch.Tensor) -> None:
        """Starts what is like the target's head from it, `[V, E]`."""

    @abstractmethod
    def logits(self, base: torch.Tensor, embedded: torch.Tensor, target_head: nn.Module) -> torch.Tensor:
        """`[B, V]` of the next token, from the prepared hidden states `base [B, E]` and the target's embeddings of
        the 1 to `config.heads` tokens after them, `embedded [B, K, E]`."""
