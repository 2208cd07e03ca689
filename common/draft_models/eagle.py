"""EAGLE-1/2's draft (Li et al. 2024, arXiv 2401.15077 and 2406.16858): one decoder layer that continues the target's
last hidden states, and reading it from our directories and from those that EAGLE's authors publish.

What may live here: the network, its configuration, its files. It may not know caches, trees, losses or which states
have arrived. Embedding and head are the target's and stay out of it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn

from common.draft_models.directory import is_published_eagle, load_into, read_config, read_tensors, save_draft
from common.draft_models.layers import Attention, DecoderLayer, LayerShape
from common.draft_models.vocabulary import KEPT_TOKENS
from common.models.errors import CheckpointError
from common.models.source import CONFIG, WEIGHTS, read_json

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

KIND = "eagle"

_PICKLED_WEIGHTS = "pytorch_model.bin"

_PUBLISHED = {
    "self_attn.q_proj": "q_proj",
    "self_attn.k_proj": "k_proj",
    "self_attn.v_proj": "v_proj",
    "self_attn.o_proj": "o_proj",
    "mlp.gate_proj": "gate_proj",
    "mlp.up_proj": "up_proj",
    "mlp.down_proj": "down_proj",
    "post_attention_layernorm": "post_norm",
}
_PUBLISHED_LAYER = "layers.0."


@dataclass(frozen=True, slots=True)
class EagleConfig:
    """`bias` is that of the layer in which embedding and feature meet."""

    layer: LayerShape
    bias: bool = True

    @property
    def hidden(self) -> int:
        return self.layer.hidden

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Raises KeyError or TypeError where a field is missing or of another type."""
        return cls(LayerShape(**content["layer"]), bool(content["bias"]))


class EagleDraft(nn.Module):
    """Row i of a sequence takes the embedding of token i + 1 and the feature of token i, and predicts the feature of
    token i + 1: the target's last hidden state after its final norm, which the target's head reads."""

    def __init__(self, config: EagleConfig):
        super().__init__()
        self.config = config
        self.fc = nn.Linear(2 * config.hidden, config.hidden, bias=config.bias)
        self.layer = DecoderLayer(config.layer)

    def enter(self, embedded: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """`[B, T, E]` from the tokens' embeddings and the features before them, `[B, T, E]` each."""
        out: torch.Tensor = self.fc(torch.cat([embedded, features], dim=-1))
        return out

    def keys_values(self, entered: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`[B, K, S, D]` each: a row's depend on its own input alone."""
        return self.layer.keys_values(entered, rows)

    def forward(self, entered: torch.Tensor, rows: torch.Tensor, attention: Attention) -> torch.Tensor:
        """The predicted features `[B, T, E]` of rows `[B, T]`, counted from 0 at the second token."""
        out: torch.Tensor = self.layer(entered, rows, attention)
        return out


def save_eagle(directory: Path, fingerprint: str, draft: EagleDraft, kept: torch.Tensor | None = None) -> None:
    """`kept`: the tokens that it may propose, int64 [kept]; None for all."""
    tensors = dict(draft.state_dict())
    if kept is not None:
        tensors[KEPT_TOKENS] = kept
    save_draft(directory, KIND, fingerprint, draft.config.to_json(), tensors)


def load_eagle(directory: Path) -> tuple[EagleDraft, torch.Tensor | None]:
    """The draft, frozen, as it was saved, and the tokens that it may propose, None for all.

    Takes our directories and published ones: `fc`, `layers.0` without an input norm, `embed_tokens`, and a
    configuration like Llama's. Raises CheckpointError for anything else.
    """
    if not (directory / WEIGHTS).is_file() and (directory / _PICKLED_WEIGHTS).is_file():
        raise CheckpointError(
            f"{directory} holds its weights as {_PICKLED_WEIGHTS}, which can run code when it is read; save them as "
            f"{WEIGHTS}."
        )
    published = is_published_eagle(directory)
    tensors = read_tensors(directory)
    kept = tensors.pop(KEPT_TOKENS, None)
    if published:
        tensors = _renamed(tensors, directory)
        config = _published_config(read_json(directory / CONFIG), tensors, directory)
    else:
        config = _own_config(directory)
    draft = EagleDraft(config)
    load_into(draft, tensors, directory)
    return draft, kept


def read_depths(directory: Path, target: "PreTrainedConfig") -> tuple[int, ...] | None:
    """Only 0, as it runs no target layer; None where its sizes are not the target's. Raises as `load_eagle` does."""
    draft, _ = load_eagle(directory)
    return (0,) if draft.config.hidden == target.hidden_size else None


def _own_config(directory: Path) -> EagleConfig:
    try:
        return EagleConfig.from_json(read_config(directory, KIND))
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{directory / CONFIG} describes no EAGLE draft; fetch or train it again.") from error


def _renamed(tensors: Mapping[str, torch.Tensor], directory: Path) -> dict[str, torch.Tensor]:
    """Our names for published tensors; the embedding, which is the target's, is left out."""
    renamed = {}
    for name, tensor in tensors.items():
        module, _, last = name.removeprefix(_PUBLISHED_LAYER).rpartition(".")
        if name.startswith("fc."):
            renamed[name] = tensor
        elif name.startswith(_PUBLISHED_LAYER) and module in _PUBLISHED:
            renamed[f"layer.{_PUBLISHED[module]}.{last}"] = tensor
        elif not name.startswith("embed_tokens."):
            raise CheckpointError(f"{directory} holds '{name}', which no EAGLE draft of one layer has; name another.")
    return renamed


def _published_config(content: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], directory: Path) -> EagleConfig:
    """What a published configuration leaves out is Llama's default; biases are read off the tensors."""
    rope = content.get("rope_parameters") or {}
    scaling = content.get("rope_scaling") or rope
    if scaling.get("rope_type", scaling.get("type", "default")) != "default":
        raise CheckpointError(f"the EAGLE draft in {directory} scales its rotary positions; name one that does not.")
    try:
        hidden, heads = int(content["hidden_size"]), int(content["num_attention_heads"])
        shape = LayerShape(
            hidden=hidden,
            heads=heads,
            kv_heads=int(content.get("num_key_value_heads") or heads),
            head_dim=int(content.get("head_dim") or hidden // heads),
            intermediate=int(content["intermediate_size"]),
            rope_base=float(content.get("rope_theta") or rope.get("rope_theta") or 10_000.0),
            epsilon=float(content.get("rms_norm_eps", 1e-6)),
            input_norm=False,
            attention_bias="layer.q_proj.bias" in tensors,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{directory / CONFIG} lacks the sizes of a Llama layer; fetch it again.") from error
    return EagleConfig(shape, bias="fc.bias" in tensors)
