"""EAGLE-1/2's draft (Li et al. 2024, arXiv 2401.15077 and 2406.16858): one decoder layer, or several, that continue the
target's last hidden states, and reading it from our directories and from those that EAGLE's authors publish.

What may live here: the network, its configuration, its files. It may not know caches, trees, losses or which states
have arrived. Embedding and head are the target's and stay out of it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from common.draft_kinds import KIND_KEY
from common.draft_models.directory import DraftFacts, network_from, read_config, save_draft
from common.draft_models.layers import Attention, DecoderLayer, LayerShape
from common.draft_models.layouts import recognise, rename
from common.draft_models.published_layers import check_settings, count_layers, layer_settings, read_layer_shapes
from common.draft_models.vocabulary import KEPT_TOKENS
from common.draft_models.weight_files import read_tensors
from common.models.errors import CheckpointError
from common.models.source import CONFIG, read_json

KIND = "eagle"


@dataclass(frozen=True, slots=True)
class EagleConfig:
    """`bias` is that of the linear layer in which embedding and feature meet. `further`: layers behind the first."""

    layer: LayerShape
    bias: bool = True
    further: tuple[LayerShape, ...] = ()

    @property
    def hidden(self) -> int:
        return self.layer.hidden

    @property
    def layers(self) -> tuple[LayerShape, ...]:
        """All layers that attend."""
        return self.layer, *self.further

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError where a field is missing or of another type."""
        further = tuple(LayerShape.from_json(each) for each in content.get("further", ()))
        return cls(LayerShape.from_json(content["layer"]), bool(content["bias"]), further)


class EagleDraft(nn.Module):
    """Row i of a sequence takes the embedding of token i + 1 and the feature of token i, and predicts the feature of
    token i + 1: the target's last hidden state after its final norm, which the target's head reads."""

    def __init__(self, config: EagleConfig):
        super().__init__()
        self.config = config
        self.fc = nn.Linear(2 * config.hidden, config.hidden, bias=config.bias)
        self.layer = DecoderLayer(config.layer)
        self.further = nn.ModuleList(DecoderLayer(shape) for shape in config.further)

    def enter(self, embedded: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """`[B, T, E]` from the tokens' embeddings and the features before them, `[B, T, E]` each."""
        out: torch.Tensor = self.fc(torch.cat([embedded, features], dim=-1))
        return out

    def keys_values(self, entered: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`[B, K, S, D]` each, of the first layer: a row's depend on its own input alone."""
        return self.layer.keys_values(entered, rows)

    def forward(
        self, entered: torch.Tensor, rows: torch.Tensor, attention: Attention, *further: Attention
    ) -> torch.Tensor:
        """The predicted features `[B, T, E]` of rows `[B, T]`, counted from 0 at the second token; `further` is the
        attention of each layer behind the first."""
        out: torch.Tensor = self.layer(entered, rows, attention)
        for layer, attends in zip(self.further, further, strict=True):
            out = layer(out, rows, attends)
        return out


def save_eagle(directory: Path, fingerprint: str, draft: EagleDraft, kept: torch.Tensor | None = None) -> None:
    """`kept`: the tokens that it may propose, int64 [kept]; None for all."""
    tensors = dict(draft.state_dict())
    if kept is not None:
        tensors[KEPT_TOKENS] = kept
    save_draft(directory, KIND, fingerprint, draft.config.to_json(), tensors)


def load_eagle(directory: Path) -> tuple[EagleDraft, torch.Tensor | None]:
    """The draft, frozen, as it was saved, and the tokens that it may propose, None for all.

    Takes our directories and published ones. Raises CheckpointError for anything else.
    """
    tensors = read_tensors(directory)
    if KIND_KEY in read_json(directory / CONFIG):
        kept = tensors.pop(KEPT_TOKENS, None)
        config = _own_config(directory)
    else:
        kept = None
        layout = recognise(directory)
        if layout is None or layout.kind != KIND:
            raise CheckpointError(f"{directory} holds no EAGLE draft; name another directory")
        settings = layer_settings(layout, directory)
        said = {**read_json(directory / CONFIG), **settings}
        check_settings(said, directory, own_embedding=False, own_head=False, is_causal=True)
        layers = count_layers(layout, settings, tensors, directory)
        tensors = rename(layout, tensors, directory, layers=layers)
        first, *further = read_layer_shapes(settings, tensors, directory, layers)
        config = EagleConfig(first, bias="fc.bias" in tensors, further=tuple(further))
    return network_from(lambda: EagleDraft(config), tensors, directory), kept


def read_facts(directory: Path) -> DraftFacts:
    """Raises as `load_eagle` does."""
    draft, kept = load_eagle(directory)
    return DraftFacts(hidden=draft.config.hidden, proposable=None if kept is None else len(kept))


def _own_config(directory: Path) -> EagleConfig:
    try:
        return EagleConfig.from_json(read_config(directory, KIND))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{directory / CONFIG} describes no EAGLE draft; fetch or train it again") from error
