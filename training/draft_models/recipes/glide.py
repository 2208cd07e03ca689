"""`glide`: a small decoder that attends to the target's last keys and values, in one forward per batch.

What may live here: the sizes, the forward and the saving of this kind. It may not know data, schedules or the loop.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from transformers import DynamicCache

from common.draft_models.exporters import LastKeyValuesExporter, StateExporter
from common.draft_models.glide import KIND, GlideConfig, GlideDraft, GlideLayer, save_glide
from common.draft_models.layers import LayerShape, RotaryEmbedding, masked_attention
from common.drafters.glide import GlideNetwork
from common.models.decoder import CausalLm
from common.models.families import key_value_widths
from common.models.parts import layers_of, stack_of
from common.models.rope import read_rope
from common.protocol.errors import MisuseError
from common.protocol.messages import StateRequest
from training.draft_models.decoder_recipe import DecoderRecipe, DecoderSize
from training.draft_models.features import FrozenTarget
from training.draft_models.lags import Received, causal
from training.draft_models.layer_sizes import fitted_layer, target_layer
from training.draft_models.recipe import Batch, FeatureNeeds, Features
from training.draft_models.target_weights import copy_attention, copy_feed_forward, copy_linear, copy_norm

# Shape letters: R rows, T columns, K key/value heads, D their size, E hidden size.

_FAR = 997
"""A position that turns most numbers of a head a good way."""

_ROUNDING = 0.05
"""The part of a key by which bfloat16 may move it, and some more."""


class GlideRecipe(DecoderRecipe):
    kind = KIND

    def __init__(self, target: FrozenTarget, size: DecoderSize):
        """Raises MisuseError for values that make no draft, and for a target to whose keys no draft of ours can
        attend."""
        super().__init__(target, size)
        self.needs = FeatureNeeds(key_values=True, logits=True)
        self.draft = GlideDraft(GlideConfig(_shape(target, size), size.layers))
        self.module = self.draft
        _start(self.draft, target)

    def predict(self, batch: Batch, features: Features, received: Received, positions: torch.Tensor) -> torch.Tensor:
        assert features.key_values is not None
        shape = self.draft.config.layer
        rows, columns = batch.ids.shape
        # [2, R, K, T, D]
        both = features.key_values[-1].view(rows, columns, 2, shape.kv_heads, shape.head_dim).permute(2, 0, 3, 1, 4)
        embedded = self._target.embedding(batch.ids).float()
        own = [masked_attention(causal(batch.ids)[:, None])] * len(self.draft.layers)
        across = masked_attention(received.seen[:, None])
        out: torch.Tensor = self.draft(embedded, positions, own, across, (both[0].float(), both[1].float()))
        return out.to(self._target.model.dtype)

    def network(self, tail: CausalLm, request: StateRequest, context: int, spare: int) -> GlideNetwork:
        draft = cast(GlideDraft, self.copied(self.draft))
        return GlideNetwork(draft, tail, self._target.head, request, context, spare)

    def exporter(self) -> StateExporter:
        return LastKeyValuesExporter(self._target.key_value_size)

    def save(self, out: Path) -> None:
        save_glide(out, self._target.fingerprint, copy.deepcopy(self.draft).bfloat16())


def build(
    target: FrozenTarget,
    layers: int = DecoderSize.layers,
    size: float = DecoderSize.size,
    missing: float = 0.0,
    alone: float = 0.0,
) -> GlideRecipe:
    """As `GlideRecipe`."""
    return GlideRecipe(target, DecoderSize(layers, size, missing, alone))


def _shape(target: FrozenTarget, size: DecoderSize) -> LayerShape:
    """Queries must be turned as the target's keys are."""
    try:
        base, scaling = read_rope(_of_last_layer(target.config.to_dict()))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _turned_otherwise(target) from error
    if len(key_value_widths(target.config)) > 1:
        raise MisuseError(
            f"a glide draft attends to the target's keys and values, which have different widths in {target.name}; "
            "train eagle3 or another kind"
        )
    layer = replace(target_layer(target), rope_base=base, rope_scaling=scaling)
    if not _turns_alike(target, layer):
        raise _turned_otherwise(target)
    across = 2 * layer.hidden * layer.heads * layer.head_dim
    fitted = fitted_layer(target, size.layers, size.size, beside=size.layers * across)
    return replace(fitted, rope_base=base, rope_scaling=scaling)


def _turned_otherwise(target: FrozenTarget) -> MisuseError:
    return MisuseError(
        f"a glide draft turns its queries as {target.name} turns its keys, which is done there in a way that is "
        "not known here; train eagle3 or another kind"
    )


def _of_last_layer(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration, or of it the rotary positions of the last layer's type alone, where each type has its own."""
    own = (config.get("rope_parameters") or {}).get((config.get("layer_types") or [None])[-1])
    return {"rope_parameters": own} if isinstance(own, Mapping) else config


@torch.no_grad()
def _turns_alike(target: FrozenTarget, shape: LayerShape) -> bool:
    """Whether keys of the target's last layer are turned as `shape` says. That is measured, because configurations do
    not say which numbers of a head are turned together, or that a layer turns none. A token alone attends to itself
    alone, so that its keys at two positions differ in how they are turned and in nothing else."""
    first, far = (torch.tensor([[at]], device=target.device) for at in (0, min(_FAR, target.context - 1)))
    wanted, rotated = (
        RotaryEmbedding(first, shape)(_last_keys(target, far)),
        RotaryEmbedding(far, shape)(_last_keys(target, first)),
    )
    return bool((rotated - wanted).norm() <= _ROUNDING * wanted.norm())


def _last_keys(target: FrozenTarget, positions: torch.Tensor) -> torch.Tensor:
    """Of the last layer, float32 `[1, K, 1, D]`, of one token alone at `positions [1, 1]`."""
    body, cache = stack_of(target.model), DynamicCache()
    token = torch.full_like(positions, target.config.vocab_size // 2)
    body(input_ids=token, position_ids=positions, past_key_values=cache, use_cache=True)
    layers: Any = cache.layers
    keys: torch.Tensor = layers[-1].keys.float()
    return keys


@torch.no_grad()
def _start(draft: GlideDraft, target: FrozenTarget) -> None:
    """Self-attention starts from the target's first layer, whose input is the same, and attention to the target and
    the feed-forward part from its last."""
    model = target.model
    layers = layers_of(model)
    copy_norm(draft.norm, getattr(stack_of(model), "norm", None))
    for layer in draft.layers:
        assert isinstance(layer, GlideLayer)
        copy_attention(layer.own, layers[0], model)
        copy_feed_forward(layer.own, layers[-1], model)
        attention = getattr(layers[-1], "self_attn", None)
        copy_norm(layer.cross.input_norm, getattr(layers[-1], "input_layernorm", None))
        copy_linear(layer.cross.o_proj, getattr(attention, "o_proj", None), model)
        if not hasattr(attention, "q_norm"):
            copy_linear(layer.cross.q_proj, getattr(attention, "q_proj", None), model)
