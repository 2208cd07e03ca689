"""Linear layers and embeddings on quantised weights, and replacing plain ones by them.

It may not know files, kernels, models or drafts.
"""

from collections.abc import Mapping

import torch
from torch import nn

from common.weight_only.products import KernelLayout, Product, make_product
from common.weight_only.weight import QuantisedWeight


class QuantisedLinear(nn.Module):
    """As `nn.Linear`, with results in the dtype of the activations. What its kernel wants of the weight is made at the
    first product; after that nothing may read the weight's own numbers, whose pages of a mapped file need no memory."""

    def __init__(
        self,
        weight: QuantisedWeight,
        bias: torch.Tensor | None = None,
        layout: KernelLayout | None = None,
        kept: torch.Tensor | None = None,
    ) -> None:
        """layout: that of the whole weight in int4, if it exists. kept: the outputs that it has, int64 `[kept]`, None
        for all; `bias` is of these."""
        super().__init__()
        self.out_features, self.in_features = weight.shape[0] if kept is None else len(kept), weight.shape[1]
        self.weight = weight
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self._kept = kept
        self._layout = layout
        self._product: tuple[torch.device, Product] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self._product_on(x.device)(x.reshape(-1, self.in_features))
        out = out if self.bias is None else out + self.bias
        return out.view(*x.shape[:-1], self.out_features)

    def trimmed(self, rows: torch.Tensor) -> "QuantisedLinear":
        """The layer to the outputs `rows` alone, int64 `[kept]`."""
        kept = rows.cpu() if self._kept is None else self._kept[rows.cpu()]
        bias = None if self.bias is None else self.bias[rows.to(self.bias.device)].detach()
        return QuantisedLinear(self.weight, bias, self._layout, kept)

    def _product_on(self, device: torch.device) -> Product:
        # The module may have been moved, of which a weight outside torch hears nothing.
        if self._product is None or self._product[0] != device:
            self._product = device, make_product(self.weight, device, self._kept, self._layout)
        return self._product[1]


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
