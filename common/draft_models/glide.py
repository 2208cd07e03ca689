"""`glide` (GliDe with a CaPE, Du et al. 2024, arXiv 2402.02082): a small decoder over token embeddings, whose layers
also attend to the keys and values of the target's last layer, as far as they have arrived. Its embedding and head are
the target's. CaPE, which proposes more tokens where confidence is low, is what every
drafter's best-first search does here.

What may live here: the network, its configuration, its files. It may not know caches, trees, losses or which states
have arrived.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from common.draft_models.directory import DraftFacts, network_from, read_config, save_draft
from common.draft_models.layers import Attention, CrossAttention, DecoderLayer, LayerShape, RmsNorm
from common.draft_models.weight_files import read_tensors
from common.models.errors import CheckpointError

# Shape letters: B rows, T tokens, S received positions, E hidden size, K key/value heads, D their size.

KIND = "glide"

MOST_LAYERS = 64
"""Layers that are read from a directory, whatever it says."""


@dataclass(frozen=True, slots=True)
class GlideConfig:
    """`layer`: of every layer; its heads and rotary positions are also those of the target's last layer."""

    layer: LayerShape
    layers: int = 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError where a field is missing or cannot be."""
        layers = int(content["layers"])
        if not 1 <= layers <= MOST_LAYERS:
            raise ValueError("there are no such drafts")
        return cls(LayerShape.from_json(content["layer"]), layers)


class GlideLayer(nn.Module):
    """Self-attention, attention to the target, feed-forward part, each with a residual."""

    def __init__(self, shape: LayerShape):
        super().__init__()
        self.own = DecoderLayer(shape)
        self.cross = CrossAttention(shape)

    def forward(
        self,
        x: torch.Tensor,
        positions: torch.Tensor,
        attention: Attention,
        across: Attention,
        target: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        """As `GlideDraft`, of one layer."""
        x = self.own.mix(x, self.own.input_norm(x), positions, attention)
        return self.own.feed_forward(self.cross(x, positions, across, target))


class GlideDraft(nn.Module):
    def __init__(self, config: GlideConfig):
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(GlideLayer(config.layer) for _ in range(config.layers))
        self.norm = RmsNorm(config.layer.hidden, config.layer.epsilon)

    def forward(
        self,
        embedded: torch.Tensor,
        positions: torch.Tensor,
        attention: Sequence[Attention],
        across: Attention,
        target: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        """What the target's head reads, `[B, T, E]`, of tokens' embeddings at `positions [B, T]`. `attention`: each
        layer's to its own keys and values; `across` is that to the `target`'s, `[B, K, S, D]` each."""
        x = embedded
        for layer, attends in zip(self.layers, attention, strict=True):
            x = layer(x, positions, attends, across, target)
        out: torch.Tensor = self.norm(x)
        return out


def save_glide(directory: Path, fingerprint: str, draft: GlideDraft) -> None:
    """Writes it in the dtype that it has."""
    save_draft(directory, KIND, fingerprint, draft.config.to_json(), draft.state_dict())


def read_glide_config(directory: Path) -> GlideConfig:
    """Raises CheckpointError where `directory` holds no glide draft."""
    try:
        return GlideConfig.from_json(read_config(directory, KIND))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the configuration in {directory} is broken; fetch or train the draft again") from error


def read_facts(directory: Path) -> DraftFacts:
    """Raises CheckpointError where `directory` holds no glide draft, or one that is broken."""
    layer = read_glide_config(directory).layer
    return DraftFacts(hidden=layer.hidden, state_width=2 * layer.kv_heads * layer.head_dim)


def load_glide(directory: Path) -> GlideDraft:
    """The network, frozen. Raises CheckpointError where it is not there or broken."""
    config = read_glide_config(directory)
    return network_from(lambda: GlideDraft(config), read_tensors(directory), directory)
