"""Linear layers and embeddings on quantised weights, and putting them in the place of plain ones.

On a CPU, torch's own kernels multiply bfloat16 activations by int8 or int4 weights; activations of another dtype are
rounded to it at the layer's input and output. On any other device a weight is dequantised for each product.

It may not know files, models or drafts.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import nn
from torch.nn import functional

from common.weight_only.modes import GROUP, INT8, padded
from common.weight_only.weight import QuantisedWeight, nibbles

_CPU = torch.device("cpu")
_ROWS = 16
"""The int4 kernel takes multiples of so many rows."""

_ROWS_AT_ONCE = 512
"""Rows that are packed at once; the kernel's own blocks divide it."""

KernelLayout = tuple[torch.Tensor, torch.Tensor]
"""An int4 weight as torch's CPU kernel wants it, which depends on the processor: uint8 `[rows, columns / 2]`, and
bfloat16 `[columns / GROUP, rows, 2]` of scales and zeros; rows are filled up to a multiple of 16."""


class QuantisedLinear(nn.Module):
    """As `nn.Linear`. `weight` holds the numbers in the order of rows and columns; where `layout` is given, nothing
    reads them, and their pages of a mapped file need no memory."""

    def __init__(
        self, weight: QuantisedWeight, bias: torch.Tensor | None = None, layout: KernelLayout | None = None
    ) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.weight = weight
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self._layout = layout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.reshape(-1, self.in_features)
        out = self._product(flat).to(x.dtype)
        out = out if self.bias is None else out + self.bias
        return out.view(*x.shape[:-1], self.out_features)

    def trimmed(self, rows: torch.Tensor) -> "QuantisedLinear":
        """The layer to the outputs `rows` alone, int64 `[kept]`."""
        rows = rows.to(self.weight.packed.device)
        return QuantisedLinear(self.weight.rows(rows), None if self.bias is None else self.bias[rows].detach())

    def _product(self, x: torch.Tensor) -> torch.Tensor:
        if self.weight.packed.device != x.device:  # the module was moved, of which a weight outside torch hears nothing
            self.weight, self._layout = self.weight.on(x.device), None
        if x.device != _CPU:
            return functional.linear(x, self.weight.dequantised(x.dtype))
        rounded = functional.pad(x.to(torch.bfloat16), (0, padded(self.in_features) - self.in_features)).contiguous()
        if self.weight.weights_mode == INT8:
            return torch._weight_int8pack_mm(rounded, self.weight.packed, self.weight.scales)
        if self._layout is None:
            self._layout = kernel_layout(self.weight)
        product: torch.Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(
            rounded, self._layout[0], GROUP, self._layout[1]
        )
        return product[:, : self.out_features]


class QuantisedEmbedding(nn.Module):
    """As `nn.Embedding`, returning vectors in the dtype to which the module was converted."""

    def __init__(self, weight: QuantisedWeight, like: torch.Tensor) -> None:
        """`like` gives device and dtype."""
        super().__init__()
        self.num_embeddings, self.embedding_dim = weight.shape
        self.weight = weight
        self.register_buffer("_like", like.new_empty(0), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """`[..., columns]` of tokens `[...]`."""
        like = self.get_buffer("_like")
        if self.weight.packed.device != like.device:
            self.weight = self.weight.on(like.device)
        rows = self.weight.rows(tokens.reshape(-1)).dequantised(like.dtype)
        return rows.view(*tokens.shape, self.embedding_dim)


def kernel_layout(weight: QuantisedWeight) -> KernelLayout:
    """Of an int4 weight, on the CPU."""
    return torch.cat(list(packed_parts(weight))), packed_scales(weight)


def packed_rows(weight: QuantisedWeight) -> int:
    """The rows of its kernel layout."""
    return -(-len(weight) // _ROWS) * _ROWS


def packed_parts(weight: QuantisedWeight) -> Iterator[torch.Tensor]:
    """The first half of its kernel layout, 512 rows at a time."""
    for start in range(0, len(weight), _ROWS_AT_ONCE):
        numbers = nibbles(weight.packed[start : start + _ROWS_AT_ONCE]).int()
        numbers = functional.pad(numbers, (0, 0, 0, -len(numbers) % _ROWS))
        packed: torch.Tensor = torch.ops.aten._convert_weight_to_int4pack_for_cpu(numbers, 1)
        yield packed


def packed_scales(weight: QuantisedWeight) -> torch.Tensor:
    """The second half of its kernel layout."""
    filled = functional.pad(weight.scales, (0, 0, 0, 0, 0, packed_rows(weight) - len(weight)))
    return filled.transpose(0, 1).contiguous()


def put_in(
    module: nn.Module, weights: Mapping[str, QuantisedWeight], like: torch.Tensor, layouts: Mapping[str, KernelLayout]
) -> None:
    """Replaces the linear layers and embeddings of `module` whose weights are named. Biases are taken over; `like`
    gives device and dtype of embeddings' vectors, `layouts` the kernel layouts that exist already, by weight.
    """
    for name, weight in weights.items():
        path = name.rpartition(".")[0]
        plain = module.get_submodule(path)
        quantised = (
            QuantisedLinear(weight, plain.bias, layouts.get(name))
            if isinstance(plain, nn.Linear)
            else QuantisedEmbedding(weight, like)
        )
        module.set_submodule(path, quantised)


def linear_weights(module: nn.Module, weights: Mapping[str, QuantisedWeight]) -> dict[str, QuantisedWeight]:
    """Those of `weights` that belong to linear layers. Raises ValueError for a weight of neither a linear layer nor an
    embedding of `module`, or of another shape."""
    chosen = {}
    for name, weight in weights.items():
        owner = module.get_submodule(name.rpartition(".")[0])
        if not isinstance(owner, nn.Linear | nn.Embedding) or owner.weight.shape != weight.shape:
            raise ValueError(f"'{name}' is no weight of a linear layer or an embedding of this shape")
        if isinstance(owner, nn.Linear):
            chosen[name] = weight
    return chosen
