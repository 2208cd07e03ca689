"""Linear layers of a model on a CPU with their weights in oneDNN's blocked layout.

A packed row has a few dozen tokens, for which `torch.nn.functional.linear` calls MKL: on an AMD EPYC 1.5 to 2.5 times
slower than oneDNN on weights that it has laid out before, at any number of rows from 1 to 520; for the few rows of a
drafted level up to 4 times, and in bfloat16, where weights are laid out for each product, 1.3 to 2 times. In float32
both differ by rounding. The operators are those that `torch.compile` calls on a CPU when it freezes weights.

It may not know slots, passes or families.
"""

from collections.abc import Callable

import torch
from torch import nn

from common.memory import free_memory_bytes, return_freed_memory
from common.models.decoder import CausalLm
from common.models.parts import layers_of, projection_of, with_projection

_ROWS = 32
"""For which weights are laid out; other numbers of rows are as fast (measured from 1 to 520)."""

_WIDE = 1 << 17
"""Numbers of a weight from which on its product with a few rows gains more than the operator costs to call."""


class _Prepacked(nn.Module):
    """What computes as `nn.Linear` does, by its weights in blocks."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = linear.bias
        packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _ROWS)
        self.register_buffer("packed", packed, persistent=False)

    def forward(self, entering: torch.Tensor) -> torch.Tensor:
        """`[..., out features]` from `[..., in features]`."""
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(entering, self.packed, self.bias, "none", [], "")
        return out


class PrepackedLinear(_Prepacked):
    """`nn.Linear` for inference, without its plain weights."""

    packed: torch.Tensor

    @property
    def weight(self) -> torch.Tensor:
        """A plain copy, made for whoever asks: some families' layers read the weights of their parts, or the dtype."""
        return self.packed.to_dense()


class PrepackedHead(_Prepacked):
    """A model's head, whose plain weights stay: an embedding may share them, and a trimmed head takes some of their
    rows."""

    def __init__(self, linear: nn.Linear):
        super().__init__(linear)
        self.weight = linear.weight


def prepack(model: CausalLm) -> None:
    """For passes: replaces the plain linear layers of the model's decoder layers, one by one, so that memory for one
    more is needed at a time. Does nothing where these operators are no gain: on another device or processor, in another
    dtype."""
    for layer in layers_of(model):
        _prepack_below(layer, _gains_in_passes)
    return_freed_memory()


def prepack_network(network: nn.Module) -> None:
    """For drafting: as `prepack`, of all wide linear layers of a network."""
    _prepack_below(network, _gains_in_levels)
    return_freed_memory()


def prepacked_head(head: nn.Module) -> nn.Module:
    """For drafting: the head with a copy of its weights laid out; the head itself where that is no gain, or would take
    more than half of the memory that is free."""
    projection = projection_of(head)
    if not isinstance(projection, nn.Linear) or not _gains_in_levels(projection):
        return head
    free = free_memory_bytes("cpu")
    is_little = bool(free) and 2 * projection.weight.nbytes > free
    return head if is_little else with_projection(head, PrepackedHead(projection))


def _prepack_below(module: nn.Module, gains: Callable[[nn.Linear], bool]) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and gains(child):
            setattr(module, name, PrepackedLinear(child))
        else:
            _prepack_below(child, gains)


def _gains_in_passes(linear: nn.Linear) -> bool:
    """Whether its product with the packed rows of a pass is faster so."""
    return _is_plain(linear) and linear.weight.dtype == torch.float32


def _gains_in_levels(linear: nn.Linear) -> bool:
    """Whether its product with the few rows of a drafted level is faster so."""
    if not _is_plain(linear) or linear.weight.numel() < _WIDE:
        return False
    multiplies: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return linear.weight.dtype == torch.float32 or (linear.weight.dtype == torch.bfloat16 and multiplies)


def _is_plain(linear: nn.Linear) -> bool:
    """Whether it is a plain linear layer, not a quantised one, one with wrappers or one rank's part, that oneDNN
    computes here."""
    is_own = type(linear).forward is nn.Linear.forward and type(linear.weight) is nn.Parameter
    if not is_own or linear._forward_hooks or linear._forward_pre_hooks or linear.weight.device.type != "cpu":
        return False
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_onednn and torch.backends.cpu.get_cpu_capability().startswith("AVX")
