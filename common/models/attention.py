"""Attention over slots, which every layer calls instead of its own: transformers' layers as a registered function.

It may not know segments, the meaning of masks, or positions: the plan of the pass contains what it needs.
"""

from collections.abc import Collection
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import WeakSet

import torch
from torch.nn.functional import pad

from common.models.attention_backend import AttentionBackend, backend_for
from common.models.decoder import CausalDecoder, CausalLm
from common.models.errors import CheckpointError
from common.models.key_values import KeyValuePool, KeyValueShape
from common.models.layer_attention import Attends, Scoring, attending, running_attention
from common.models.parts import layers_of, stack_of
from common.models.plan import AttentionPlan
from common.protocol.plain import plain

ATTENTION = "outrider_tree"

_WITHOUT_EFFECT = (
    *("dropout", "position_ids", "use_cache"),
    *("output_attentions", "output_hidden_states", "output_router_logits"),
)
"""Arguments of layers that change nothing of what attention computes in a pass. Positions are in queries and keys."""


@dataclass(frozen=True, eq=False)
class PassContext:
    """The attention of all layers in one pass, by the device's own backend where none is given."""

    plan: AttentionPlan
    pool: KeyValuePool
    backend: AttentionBackend | None = None

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scoring: Scoring
    ) -> torch.Tensor:
        """Stores the new keys and values in their slots, then lets each segment attend to its own context."""
        plan, pool = self.plan, self.pool
        filled = query.shape[2] - plan.rows
        if filled:
            query, key, value = (each[:, :, : plan.rows] for each in (query, key, value))
        pool.write(layer, plan.written_slots, key[0], value[0], plan.written_ranges)
        backend = self.backend or backend_for(plan.device, plan.dtype)
        result = backend.attend(plan, query[0], pool.keys_KSD[layer], pool.values_KSV[layer], scoring)
        # Rows that only fill the pass up see nothing and are not kept.
        return pad(result, (0, 0, 0, filled)) if filled else result


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls: `Attends.attend`, its result as `[B, Q, H, V]`.

    Raises `TypeError` when the model is called without a pass, and `CheckpointError` for an argument that may change
    what a token sees, such as the blocks of sparse attention: below the length where that begins, answers would agree.
    """
    config = getattr(module, "config", None)
    for name, given in {"attention_mask": attention_mask, **others}.items():
        if given is not None and name not in _WITHOUT_EFFECT:
            raise CheckpointError(
                f"the attention of the model type '{plain(getattr(config, 'model_type', ''), 40)}' depends on "
                f"'{plain(name, 40)}', which packed passes do not compute; choose another checkpoint"
            )
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    window, chunk = _reach(config, layer, sliding_window)
    scoring = Scoring(query.shape[-1] ** -0.5 if scaling is None else scaling, window, chunk, softcap, s_aux)
    result = running_attention().attend(layer, query, key, value, scoring)
    return result.view(query.shape[0], query.shape[2], query.shape[1], -1), None


def _reach(config: Any, layer: int, sliding_window: int | None) -> tuple[int | None, int | None]:
    """The sliding window and the chunk of a layer. Some families tell them to the mask alone: by the layer's type, or
    one window for all layers. A window counts only where the family's configuration class has that field."""
    types = getattr(config, "layer_types", None)
    kind = types[layer] if types and layer < len(types) else None
    if kind == "chunked_attention":
        return sliding_window, config.attention_chunk_size
    slides = kind == "sliding_attention" or (not types and hasattr(type(config), "sliding_window"))
    if slides and sliding_window is None:
        return config.sliding_window, None
    return sliding_window, None


def run_layers(model: CausalLm, attends: Attends, positions: torch.Tensor, entering: torch.Tensor) -> torch.Tensor:
    """`[B, Q, E]`: last hidden states, after the final norm, from `entering [B, Q, E]`, what the first layer gets, at
    `positions [B, Q]`. A pass is one row, B = 1. Threads may run layers of one model at the same time."""
    _hook(layers_of(model)[0])
    before = _entering.set(entering)
    try:
        with attending(attends):
            output = stack_of(model)(inputs_embeds=entering, position_ids=positions, use_cache=False)
    finally:
        _entering.reset(before)
    hidden: torch.Tensor = output.last_hidden_state
    return hidden


_entering: ContextVar[torch.Tensor | None] = ContextVar("entering", default=None)
"""What the first layer gets in this thread. A hook for each call would be run by other threads' forwards too."""

_hooked: WeakSet[torch.nn.Module] = WeakSet()
_registering = Lock()


def _hook(layer: torch.nn.Module) -> None:
    """From here on this layer gets what `run_layers` says, where that runs it. A family may scale its embeddings, or
    add positions to them, before its first layer."""
    with _registering:
        if layer not in _hooked:
            layer.register_forward_pre_hook(_enter, with_kwargs=True)
            _hooked.add(layer)


def _enter(_: object, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    entering = _entering.get()
    if entering is None:
        return None
    return ((entering, *given[1:]), named) if given else (given, named | {"hidden_states": entering})


def take_over(model: CausalLm) -> None:
    """From here on every layer of the model attends as a pass says."""
    if isinstance(model, CausalDecoder):
        return
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, attend)
    model.set_attn_implementation(ATTENTION)


def pool_for(
    model: CausalLm,
    capacity: int,
    keep_hidden: bool = False,
    taps: Collection[int] = (),
    *,
    on_demand: bool = False,
    padding_slots: int = 0,
) -> KeyValuePool:
    """K/V of `capacity` slots for a model that was taken over, as wide in each layer as its attention gets them. The
    other arguments are those of `KeyValuePool.allocate`.

    Raises `ValueError` below one slot, and `CheckpointError` where the model computes its attention itself.
    """
    if capacity < 1:
        raise ValueError(f"a K/V pool needs a positive capacity, not {capacity}")
    config = model.config
    if isinstance(model, CausalDecoder):
        shapes = [KeyValueShape(int(config.num_key_value_heads), int(config.head_dim), int(config.head_dim))]
        shapes *= int(config.num_hidden_layers)
    else:
        measured = _Shapes()
        first = torch.zeros((1, 1), dtype=torch.long, device=model.device)
        with torch.inference_mode(), attending(measured):
            stack_of(model)(input_ids=first, position_ids=first, use_cache=False)
        if config.num_hidden_layers and not measured.of_layers:
            raise CheckpointError(
                f"the model type '{config.model_type}' computes its attention itself, so that no pass can hold several "
                "sessions; choose another target"
            )
        layers = range(max(measured.of_layers, default=-1) + 1)
        shapes = [measured.of_layers.get(layer, KeyValueShape(0, 0, 0)) for layer in layers]
    hidden_size = int(config.hidden_size)
    return KeyValuePool.allocate(
        shapes, capacity, model.dtype, model.device, hidden_size, keep_hidden, taps, on_demand, padding_slots
    )


class _Shapes:
    """Notes the shapes of the keys and values of each layer, and attends to nothing."""

    def __init__(self) -> None:
        self.of_layers: dict[int, KeyValueShape] = {}

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scoring: Scoring
    ) -> torch.Tensor:
        self.of_layers[layer] = KeyValueShape(key.shape[1], key.shape[3], value.shape[3])
        return query.new_zeros(query.shape[2], query.shape[1] * value.shape[3])
