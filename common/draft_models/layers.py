"""The decoder layer that draft networks are made of, with its queries and its keys/values from separate sources, and
the residual block of draft heads.

What may live here: RMSNorm, rotary positions, grouped-query attention, SwiGLU, and plain masked attention. It may not
know caches, slots, trees or which network it is part of.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import torch
from torch import nn
from torch.nn import functional

from common.models.rope import RopeScaling, inverse_frequencies

# Shape letters: B rows, T queries, S sources, E features, H query heads, K key/value heads, D head dimension.

Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""From queries `[B, H, T, D]`, keys and values `[B, K, S, D]` to the heads' results `[B, T, H * D]`."""


@dataclass(frozen=True, slots=True)
class LayerShape:
    """Sizes and variants of one decoder layer. `head_norms`: the heads of queries and keys are normalised before they
    are turned, as in Qwen3. `sliding_window`: a row sees so many rows, its own last; None for all."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    rope_base: float = 10_000.0
    epsilon: float = 1e-5
    input_norm: bool = True
    attention_bias: bool = False  # of queries, keys and values
    output_bias: bool = False  # of the projection of what attention returns
    head_norms: bool = False
    rope_scaling: RopeScaling | None = None
    sliding_window: int | None = None

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """From what `dataclasses.asdict` made. Raises KeyError, TypeError or ValueError where it is none."""
        scaling = content.get("rope_scaling")
        shape = cls(**{**content, "rope_scaling": None if scaling is None else RopeScaling.from_json(scaling)})
        sizes = (shape.hidden, shape.heads, shape.kv_heads, shape.head_dim, shape.intermediate)
        if not all(isinstance(size, int) and size > 0 for size in sizes):
            raise ValueError("a layer's sizes are whole numbers, at least 1")
        if not all(isinstance(number, int | float) for number in (shape.rope_base, shape.epsilon)):
            raise ValueError("a layer's rope_base and epsilon are numbers")
        return shape


class RmsNorm(nn.Module):
    def __init__(self, width: int, epsilon: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self._epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, (x.shape[-1],), self.weight, self._epsilon)


class DecoderLayer(nn.Module):
    """Pre-norm attention and SwiGLU, each with a residual, as in Llama.

    The caller chooses the attention: `forward` takes an `Attention`, and `keys_values` may be computed before, from
    any source of the same width. Queries, keys and values may also be of several vectors beside each other, of which
    the residual is one: `attend` then takes both.
    """

    def __init__(self, shape: LayerShape, read_vectors: int = 1):
        """`read_vectors`: vectors of `shape.hidden` numbers that queries, keys and values are made of."""
        super().__init__()
        self.shape = shape
        hidden, dim, read = shape.hidden, shape.head_dim, shape.hidden * read_vectors
        self.input_norm = RmsNorm(hidden, shape.epsilon) if shape.input_norm else nn.Identity()
        self.q_proj = nn.Linear(read, shape.heads * dim, bias=shape.attention_bias)
        self.k_proj = nn.Linear(read, shape.kv_heads * dim, bias=shape.attention_bias)
        self.v_proj = nn.Linear(read, shape.kv_heads * dim, bias=shape.attention_bias)
        self.o_proj = nn.Linear(shape.heads * dim, hidden, bias=shape.output_bias)
        self.q_norm = RmsNorm(dim, shape.epsilon) if shape.head_norms else nn.Identity()
        self.k_norm = RmsNorm(dim, shape.epsilon) if shape.head_norms else nn.Identity()
        self.post_norm = RmsNorm(hidden, shape.epsilon)
        self.gate_proj = nn.Linear(hidden, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, hidden, bias=False)

    def keys_values(self, source: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`[B, K, S, D]` each, of `source [B, S, E]` at `positions [B, S]`."""
        return self._keys_values(self.input_norm(source), self._rope(positions))

    def keys_values_as_is(self, source: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """As `keys_values`, without the input norm."""
        return self._keys_values(source, self._rope(positions))

    def forward(
        self,
        x: torch.Tensor,
        positions: torch.Tensor,
        attention: Attention,
        keys_values: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """`[B, T, E]` from `x [B, T, E]` at `positions [B, T]`, over `keys_values`, by default its own."""
        return self.attend(x, self.input_norm(x), positions, attention, keys_values)

    def attend(
        self,
        x: torch.Tensor,
        normed: torch.Tensor,
        positions: torch.Tensor,
        attention: Attention,
        keys_values: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """As `forward`, with what queries, keys and values read: `normed [B, T, read_vectors * E]`."""
        return self.feed_forward(self.mix(x, normed, positions, attention, keys_values))

    def mix(
        self,
        x: torch.Tensor,
        normed: torch.Tensor,
        positions: torch.Tensor,
        attention: Attention,
        keys_values: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """The first half of `attend`: attention with its residual."""
        rope = self._rope(positions)
        queries = rope(self.q_norm(_split(self.q_proj(normed), self.shape.head_dim)))
        keys, values = self._keys_values(normed, rope) if keys_values is None else keys_values
        mixed: torch.Tensor = x + self.o_proj(attention(queries, keys, values))
        return mixed

    def feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        """The second half, `[B, T, E]`: SwiGLU with its residual."""
        normed = self.post_norm(x)
        out: torch.Tensor = x + self.down_proj(functional.silu(self.gate_proj(normed)) * self.up_proj(normed))
        return out

    def _keys_values(self, normed: torch.Tensor, rope: "RotaryEmbedding") -> tuple[torch.Tensor, torch.Tensor]:
        dim = self.shape.head_dim
        return rope(self.k_norm(_split(self.k_proj(normed), dim))), _split(self.v_proj(normed), dim)

    def _rope(self, positions: torch.Tensor) -> "RotaryEmbedding":
        return RotaryEmbedding(positions, self.shape)


class ResidualBlock(nn.Module):
    """x + SiLU(W x + b), initialised to the identity."""

    def __init__(self, width: int):
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + functional.silu(self.linear(x))


class CrossAttention(nn.Module):
    """Attention with a residual to keys and values that another model has made, with its own rotary positions."""

    def __init__(self, shape: LayerShape):
        """`shape`: heads and rotary positions are the other model's."""
        super().__init__()
        self.shape = shape
        self.input_norm = RmsNorm(shape.hidden, shape.epsilon)
        self.q_proj = nn.Linear(shape.hidden, shape.heads * shape.head_dim, bias=shape.attention_bias)
        self.o_proj = nn.Linear(shape.heads * shape.head_dim, shape.hidden, bias=shape.output_bias)

    def forward(
        self,
        x: torch.Tensor,
        positions: torch.Tensor,
        attention: Attention,
        keys_values: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        """`[B, T, E]` from `x [B, T, E]` at `positions [B, T]`, over `keys_values`, `[B, K, S, D]` each."""
        rope = RotaryEmbedding(positions, self.shape)
        queries = rope(_split(self.q_proj(self.input_norm(x)), self.shape.head_dim))
        out: torch.Tensor = x + self.o_proj(attention(queries, *keys_values))
        return out


def full_attention(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """An `Attention` in which every query attends to every source."""
    result = functional.scaled_dot_product_attention(_folded(queries, keys), keys, values)
    return result.reshape(queries.shape).transpose(1, 2).flatten(2)


def masked_attention(mask: torch.Tensor) -> Attention:
    """Plain attention; `mask` is bool, broadcast to `[B, H, T, S]`, True where a query attends to a source.

    A query without a source gets zeros.
    """
    blind = ~mask.any(dim=-1, keepdim=True)
    mask = mask | blind  # the softmax of a row that is masked completely has no gradient
    # Of one mask for each query, a repeated one would take more than repeated keys and values.
    is_same_for_all = mask.shape[-2] == 1 and (mask.ndim < 3 or mask.shape[-3] == 1)

    def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        asking = queries
        if is_same_for_all:
            asking = _folded(queries, keys)
        else:
            repeats = queries.shape[1] // keys.shape[1]
            keys, values = keys.repeat_interleave(repeats, 1), values.repeat_interleave(repeats, 1)
        result = functional.scaled_dot_product_attention(asking, keys, values, attn_mask=mask).reshape(queries.shape)
        return result.masked_fill(blind, 0.0).transpose(1, 2).flatten(2)

    return attend


def beside(others: tuple[torch.Tensor, torch.Tensor], attention: Attention) -> Attention:
    """An `Attention` to `others`, keys and values `[B, K, S, D]`, and then to a layer's own, both by `attention`."""

    def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return attention(queries, torch.cat([others[0], keys], dim=2), torch.cat([others[1], values], dim=2))

    return attend


class RotaryEmbedding:
    """Rotary positions (Su et al. 2021) in Llama's layout, of heads `[B, H, T, D]` at `positions [B, T]`."""

    def __init__(self, positions: torch.Tensor, shape: LayerShape):
        frequencies = _frequencies(shape.head_dim, shape.rope_base, shape.rope_scaling, positions.device)
        angles = positions[:, None, :, None].float() * frequencies
        magnitude = 1.0 if shape.rope_scaling is None else shape.rope_scaling.magnitude
        self._cos, self._sin = angles.cos() * magnitude, angles.sin() * magnitude

    def __call__(self, heads: torch.Tensor) -> torch.Tensor:
        cos, sin = self._cos.to(heads.dtype), self._sin.to(heads.dtype)
        return heads * cos + heads.roll(heads.shape[-1] // 2, dims=-1) * sin


@cache
def _frequencies(head_dim: int, base: float, scaling: RopeScaling | None, device: torch.device) -> torch.Tensor:
    """Of each number of a head, `[D]`: the first half turns the other way than the second."""
    # Cached, so it must not be an inference tensor: it may be made while drafting and used in training.
    with torch.inference_mode(False):
        frequencies = inverse_frequencies(base, head_dim, scaling).to(device)
        return torch.cat([-frequencies, frequencies])


def _folded(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Query heads that share a key/value head become further queries of it, so that no key or value is repeated."""
    rows, heads, count, dim = queries.shape
    return queries.reshape(rows, keys.shape[1], heads // keys.shape[1] * count, dim)


def _split(x: torch.Tensor, head_dim: int) -> torch.Tensor:
    return x.view(*x.shape[:-1], x.shape[-1] // head_dim, head_dim).transpose(1, 2)
