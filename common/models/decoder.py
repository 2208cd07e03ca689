"""A decoder of four families for packed passes, in plain torch: what a client runs of a checkpoint.

Transformers' own classes compute the same, but importing them takes several seconds, because they bring
torch.distributed and torch._dynamo. The operations here are theirs in their order, so that results are equal to the
last bit; a test compares all families. `load_decoder` takes plain checkpoints whose configuration it understands
completely, and leaves every other one, and every complaint, to transformers.

It may not know K/V pools, slots or drafts, and may not import transformers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import torch
from torch import nn
from torch.nn.functional import silu

from common.models.layer_attention import Scoring, running_attention
from common.models.placement import parse_device, parse_dtype
from common.models.rope import RopeScaling, inverse_frequencies, read_rope
from common.models.source import CONFIG, QUANTISATION, read_json, weight_files
from common.weight_only.files import read_mapped
from common.weight_only.load import is_quantised, load_quantised

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_HEAD, _EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
_SLIDING = "sliding_attention"
_KNOWN = ("llama", "mistral", "qwen2", "qwen3")
"""The model types that this decoder computes as transformers does, to the last bit."""


class _NotPlainError(Exception):
    """Transformers should load this checkpoint."""


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """What of a checkpoint's config.json decides what its decoder computes, under transformers' names."""

    model_type: str
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    rms_norm_eps: float
    tie_word_embeddings: bool
    attention_bias: tuple[bool, bool]
    """Of the projections to queries, keys and values, and of the projection of what attention returns."""
    mlp_bias: bool
    rope_base: float
    rope_scaling: RopeScaling | None
    sliding_windows: tuple[int | None, ...]
    """Of each layer, None where it sees everything."""


@dataclass(frozen=True, eq=False)
class DecoderOutput:
    last_hidden_state: torch.Tensor


class _Linear(nn.Linear):
    def reset_parameters(self) -> None:
        """Weights are read, never drawn."""


class _Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        """Weights are read, never drawn. Drawing them on the device `meta` would import torch._dynamo."""


class _RmsNorm(nn.Module):
    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))
        self.eps = eps

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        wide = hidden.to(torch.float32)
        variance = wide.pow(2).mean(-1, keepdim=True)
        wide = wide * torch.rsqrt(variance + self.eps)
        return self.weight * wide.to(hidden.dtype)


class _Attention(nn.Module):
    def __init__(self, config: DecoderConfig, layer_idx: int):
        super().__init__()
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scoring = Scoring(config.head_dim**-0.5, config.sliding_windows[layer_idx])
        queries, keys = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
        bias, bias_out = config.attention_bias
        self.q_proj = _Linear(config.hidden_size, queries, bias=bias)
        self.k_proj = _Linear(config.hidden_size, keys, bias=bias)
        self.v_proj = _Linear(config.hidden_size, keys, bias=bias)
        self.o_proj = _Linear(queries, config.hidden_size, bias=bias_out)
        has_norms = config.model_type == "qwen3"
        self.q_norm = _RmsNorm(config.head_dim, config.rms_norm_eps) if has_norms else nn.Identity()
        self.k_norm = _RmsNorm(config.head_dim, config.rms_norm_eps) if has_norms else nn.Identity()

    def forward(self, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        heads = (*hidden.shape[:-1], -1, self.head_dim)
        query = self.q_norm(self.q_proj(hidden).view(heads)).transpose(1, 2)
        key = self.k_norm(self.k_proj(hidden).view(heads)).transpose(1, 2)
        value = self.v_proj(hidden).view(heads).transpose(1, 2)
        query, key = _rotated(query, cos, sin), _rotated(key, cos, sin)
        result = running_attention().attend(self.layer_idx, query, key, value, self.scoring)[None]
        out: torch.Tensor = self.o_proj(result)
        return out


class _Mlp(nn.Module):
    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.gate_proj = _Linear(config.hidden_size, config.intermediate_size, bias=config.mlp_bias)
        self.up_proj = _Linear(config.hidden_size, config.intermediate_size, bias=config.mlp_bias)
        self.down_proj = _Linear(config.intermediate_size, config.hidden_size, bias=config.mlp_bias)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down_proj(silu(self.gate_proj(hidden)) * self.up_proj(hidden))
        return out


class _Layer(nn.Module):
    def __init__(self, config: DecoderConfig, layer_idx: int):
        super().__init__()
        self.self_attn = _Attention(config, layer_idx)
        self.mlp = _Mlp(config)
        self.input_layernorm = _RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = _RmsNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), cos, sin)
        out: torch.Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return out


class _Stack(nn.Module):
    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.embed_tokens = _Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(_Layer(config, index) for index in range(config.num_hidden_layers))
        self.norm = _RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.inverse_frequencies = torch.empty(0)

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        *,
        position_ids: torch.Tensor,
        use_cache: bool = False,
    ) -> DecoderOutput:
        hidden = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        frequencies = position_ids[..., None].float() * self.inverse_frequencies
        doubled = torch.cat((frequencies, frequencies), dim=-1)
        cos, sin = doubled.cos().to(hidden.dtype).unsqueeze(1), doubled.sin().to(hidden.dtype).unsqueeze(1)
        for layer in self.layers:
            hidden = layer(hidden, cos, sin)
        return DecoderOutput(self.norm(hidden))


class CausalDecoder(nn.Module):
    """A causal LM for packed passes, with the names of transformers' modules."""

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.config = config
        self.model = _Stack(config)
        self.lm_head = _Linear(config.hidden_size, config.vocab_size, bias=False)

    @property
    def device(self) -> torch.device:
        return self.model.norm.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Of what it computes; weights may be quantised."""
        return self.model.norm.weight.dtype

    def get_input_embeddings(self) -> nn.Module:
        return self.model.embed_tokens


CausalLm: TypeAlias = Union[CausalDecoder, "PreTrainedModel"]
"""What passes run: the decoder here, or transformers' model."""


def load_decoder(
    directory: Path, device: str | torch.device, dtype: str | torch.dtype, last_layers: int | None = None
) -> CausalDecoder | None:
    """The checkpoint for inference, or of its layers the last ones only; None where transformers should load it.

    Raises `CheckpointError` for a dtype or a device that cannot be used.
    """
    chosen_dtype, chosen_device = parse_dtype(dtype), parse_device(device)
    try:
        config = read_json(directory / CONFIG)
        parsed = _parse(config)
        held = parsed.num_hidden_layers
        count = held if last_layers is None else last_layers
        if count > held:
            return None
        decoder, first = _empty(parsed, held - count), held - count
        tensors = _read(directory, decoder, first)
        if parsed.tie_word_embeddings:
            tensors[_HEAD] = tensors[_EMBEDDING]
        if is_quantised(tensors):
            load_quantised(decoder, tensors, torch.empty(0, device=chosen_device, dtype=chosen_dtype))
        else:
            _load_plain(decoder, tensors, chosen_device, chosen_dtype)
        decoder.model.inverse_frequencies = inverse_frequencies(
            parsed.rope_base, parsed.head_dim, parsed.rope_scaling
        ).to(chosen_device)
    # Whatever is wrong here is told by transformers, which loads it next.
    except Exception:
        return None
    return decoder.requires_grad_(False).eval()


def _load_plain(
    decoder: CausalDecoder, tensors: Mapping[str, torch.Tensor], device: torch.device, dtype: torch.dtype
) -> None:
    # What needs no conversion stays in the mapped file: an embedding takes memory for the rows that occur.
    weights = {name: tensor.to(device, dtype) for name, tensor in tensors.items()}
    if decoder.config.tie_word_embeddings:
        weights[_HEAD] = weights[_EMBEDDING]
    decoder.load_state_dict(weights, assign=True)


def _empty(config: DecoderConfig, first: int) -> CausalDecoder:
    """Without its layers before `first`, and without weights."""
    windows = config.sliding_windows[first:]
    with torch.device("meta"):
        return CausalDecoder(replace(config, num_hidden_layers=len(windows), sliding_windows=windows))


def _read(directory: Path, decoder: CausalDecoder, first: int) -> dict[str, torch.Tensor]:
    """The decoder's tensors under its names, its layers being those of the checkpoint from `first` on."""
    wanted = {}
    for name in decoder.state_dict():
        if name == _HEAD and decoder.config.tie_word_embeddings:
            continue
        parts = name.split(".")
        if parts[:2] == ["model", "layers"]:
            parts[2] = str(int(parts[2]) + first)
        wanted[".".join(parts)] = name
    tensors: dict[str, torch.Tensor] = {}
    for file in weight_files(directory):
        held = read_mapped(file)
        if _HEAD in held and _HEAD not in wanted:
            raise _NotPlainError
        tensors |= {wanted[name]: held[name] for name in held.keys() & wanted.keys()}
    if len(tensors) < len(wanted) or not all(tensor.is_floating_point() for tensor in tensors.values()):
        raise _NotPlainError
    return tensors


def _parse(config: Mapping[str, Any]) -> DecoderConfig:
    """Raises `_NotPlainError`, or LookupError, for what does not say everything that decides the result."""
    family = config["model_type"]
    if family not in _KNOWN or config.get(QUANTISATION) or config.get("hidden_act", "silu") != "silu":
        raise _NotPlainError
    if config.get("per_layer_config"):
        raise _NotPlainError
    hidden, heads, layers = config["hidden_size"], config["num_attention_heads"], config["num_hidden_layers"]
    head_dim = config.get("head_dim")
    if head_dim is None and family != "qwen3" and hidden % heads == 0:
        head_dim = hidden // heads
    has_bias = {"qwen2": True, "mistral": False}.get(family, config.get("attention_bias", False))
    has_mlp_bias = config.get("mlp_bias", False) if family == "llama" else False
    base, scaling = _rope(config)
    parsed = DecoderConfig(
        model_type=family,
        hidden_size=hidden,
        intermediate_size=config["intermediate_size"],
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=config["num_key_value_heads"],
        head_dim=head_dim or 0,
        vocab_size=config["vocab_size"],
        rms_norm_eps=config["rms_norm_eps"],
        tie_word_embeddings=config.get("tie_word_embeddings", False),
        attention_bias=(has_bias, has_bias and family != "qwen2"),
        mlp_bias=has_mlp_bias,
        rope_base=base,
        rope_scaling=scaling,
        sliding_windows=_sliding_windows(config, family, layers),
    )
    sizes = (parsed.intermediate_size, parsed.num_key_value_heads, parsed.head_dim, parsed.vocab_size, hidden, heads)
    # Of no other type, as true is a number to Python.
    if any(type(size) is not int or size < 1 for size in sizes) or type(layers) is not int or layers < 0:
        raise _NotPlainError
    if any(type(flag) is not bool for flag in (has_bias, has_mlp_bias, parsed.tie_word_embeddings)):
        raise _NotPlainError
    if type(parsed.rms_norm_eps) is not float or parsed.head_dim % 2:
        raise _NotPlainError
    return parsed


def _rope(config: Mapping[str, Any]) -> tuple[float, RopeScaling | None]:
    """The base of rotary positions and how they are scaled, where that is as transformers does to the last bit."""
    said = {**config, **(config.get("rope_scaling") or config.get("rope_parameters") or {})}
    if not isinstance(said["rope_theta"], int | float):
        raise _NotPlainError
    base, scaling = read_rope(config)
    if scaling is not None and scaling.rope_type == "yarn":
        raise _NotPlainError
    return base, scaling


def _sliding_windows(config: Mapping[str, Any], family: str, layers: int) -> tuple[int | None, ...]:
    if family == "llama":
        return (None,) * layers
    if family == "mistral":
        if config.get("layer_types"):
            raise _NotPlainError
        return (config["sliding_window"],) * layers
    if not config.get("use_sliding_window", False):
        # Where nothing slides, layers that are called sliding are none.
        return (None,) * layers
    window, types = config["sliding_window"], config.get("layer_types")
    if types is None:
        most = config["max_window_layers"]
        types = [_SLIDING if index >= most else "full_attention" for index in range(layers)]
    if len(types) != layers or type(window) is not int:
        raise _NotPlainError
    return tuple(window if kind == _SLIDING else None for kind in types)


def _rotated(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = states.shape[-1] // 2
    turned = torch.cat((-states[..., half:], states[..., :half]), dim=-1)
    return (states * cos) + (turned * sin)
