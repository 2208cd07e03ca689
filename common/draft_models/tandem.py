"""`tandem` (Tandem transformers, Nair et al. 2024, arXiv 2402.08644): a small decoder over token embeddings, in which
the tokens that the target has processed are attended to as the target's hidden states, projected down, and the others
as the decoder's own. Its embedding and head are the target's.

The projection down is the server's, so that what travels is small: by default as wide as `moa`'s state, twice the width
of a layer's keys, which for Llama-3.1-8B is half a hidden state.

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
from common.draft_models.layers import Attention, DecoderLayer, LayerShape, RmsNorm
from common.draft_models.state_fuse import StateFuse, check_reach, check_taps, load_state_fuse
from common.draft_models.weight_files import read_tensors
from common.models.errors import CheckpointError

# Shape letters: B rows, T tokens, S received states, W state width, E hidden size, K key/value heads, D their size.

KIND = "tandem"

MOST_LAYERS = 64
"""Layers that are read from a directory, whatever it says."""


@dataclass(frozen=True, slots=True)
class TandemConfig:
    """`layer`: of each of the `layers`. `taps`: the target's layers whose inputs are projected down, from 0, to
    `state_width` numbers."""

    layer: LayerShape
    layers: int
    taps: tuple[int, ...]
    state_width: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError where a field is missing or cannot be."""
        layers, width = int(content["layers"]), int(content["state_width"])
        if not 1 <= layers <= MOST_LAYERS or width < 1:
            raise ValueError("there are no such drafts")
        return cls(LayerShape.from_json(content["layer"]), layers, check_taps(content["taps"]), width)


class TandemDraft(nn.Module):
    def __init__(self, config: TandemConfig):
        super().__init__()
        self.config = config
        hidden = config.layer.hidden
        self.layers = nn.ModuleList(DecoderLayer(config.layer) for _ in range(config.layers))
        self.entries = nn.ModuleList(nn.Linear(config.state_width, hidden, bias=False) for _ in range(config.layers))
        self.norm = RmsNorm(hidden, config.layer.epsilon)

    def keys_values(self, states: torch.Tensor, positions: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Of each layer `[B, K, S, D]` twice, from received states `[B, S, W]` at `positions [B, S]`."""
        return [
            layer.keys_values(entry(states), positions)  # type: ignore[operator]
            for layer, entry in zip(self.layers, self.entries, strict=True)
        ]

    def forward(self, embedded: torch.Tensor, positions: torch.Tensor, attention: Sequence[Attention]) -> torch.Tensor:
        """What the target's head reads, `[B, T, E]`, of tokens' embeddings at `positions [B, T]`. `attention`: each
        layer's, which uses received keys and values instead of its own."""
        *others, last = attention
        out: torch.Tensor = self.norm(self.last(self.read(embedded, positions, others), positions, last))
        return out

    def read(self, embedded: torch.Tensor, positions: torch.Tensor, attention: Sequence[Attention]) -> torch.Tensor:
        """What enters the last layer, `[B, T, E]`; `attention`: that of the others."""
        x = embedded
        for layer, attends in zip(self.layers[:-1], attention, strict=True):
            x = layer(x, positions, attends)
        return x

    @property
    def last(self) -> DecoderLayer:
        """The last layer, which the norm follows."""
        layer = self.layers[-1]
        assert isinstance(layer, DecoderLayer)
        return layer


def make_fuse(config: TandemConfig) -> StateFuse:
    """A new, untrained server's half."""
    return StateFuse(len(config.taps) * config.layer.hidden, config.state_width, config.layer.epsilon)


def save_tandem(directory: Path, fingerprint: str, draft: TandemDraft, fuse: StateFuse) -> None:
    """Writes the client's half and the server's, in the dtype they have."""
    save_draft(directory, KIND, fingerprint, draft.config.to_json(), draft.state_dict(), fuse.state_dict())


def read_tandem_config(directory: Path) -> TandemConfig:
    """Raises CheckpointError where `directory` holds no tandem draft."""
    try:
        return TandemConfig.from_json(read_config(directory, KIND))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the configuration in {directory} is broken; fetch or train the draft again") from error


def read_facts(directory: Path) -> DraftFacts:
    """Raises CheckpointError where `directory` holds no tandem draft, or one that is broken."""
    config = read_tandem_config(directory)
    return DraftFacts(hidden=config.layer.hidden, least_layers=max(config.taps))


def load_tandem(directory: Path) -> TandemDraft:
    """The client's half, frozen. Raises CheckpointError where it is not there or broken."""
    config = read_tandem_config(directory)
    return network_from(lambda: TandemDraft(config), read_tensors(directory), directory)


def load_fuse(directory: Path) -> StateFuse:
    """The server's half, frozen. Raises CheckpointError where it is not there or broken."""
    return load_fuse_of(read_tandem_config(directory), directory)


def load_fuse_of(config: TandemConfig, directory: Path) -> StateFuse:
    """As `load_fuse`, for a draft of any kind whose layers are these."""
    inputs = len(config.taps) * config.layer.hidden
    return load_state_fuse(directory, inputs, config.state_width, config.layer.epsilon)


def read_taps(directory: Path, layers: int) -> tuple[int, ...]:
    """The layers of a target of `layers` layers whose inputs are projected down. Raises CheckpointError where it has
    not so many."""
    return check_reach(read_tandem_config(directory).taps, layers, directory)
