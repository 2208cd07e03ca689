"""Linear layers of a float32 model on a CPU with their weights in oneDNN's blocked layout.

A packed row has a few dozen tokens, for which `torch.nn.functional.linear` calls MKL: on an AMD EPYC 1.5 to 2.5 times
slower than oneDNN on weights that it has laid out before, at any number of rows from 1 to 520. Both compute in float32
and differ by rounding. The operators are those that `torch.compile` calls on a CPU when it freezes weights.

It may not know slots, passes or families.
"""

import torch
from torch import nn

from common.models.decoder import CausalLm
from common.models.parts import layers_of

_ROWS = 32
"""For which weights are laid out; other numbers of rows are as fast (measured from 1 to 520)."""


class PrepackedLinear(nn.Module):
    """`nn.Linear` for inference, without its plain weights."""

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


def prepack(model: CausalLm) -> None:
    """Replaces the plain linear layers of the model's decoder layers, one by one, so that memory for one more is needed
    at a time. Does nothing where these operators are no gain: on another device or processor, in another dtype."""
    for layer in layers_of(model):
        _prepack_below(layer)


def _prepack_below(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and _gains(child):
            setattr(module, name, PrepackedLinear(child))
        else:
            _prepack_below(child)


def _gains(module: nn.Linear) -> bool:
    """Whether it is a plain linear layer, not a quantised one, one with wrappers or one rank's part, that oneDNN
    computes here."""
    if type(module) is not nn.Linear or module._forward_hooks or module._forward_pre_hooks:
        return False
    weight = module.weight
    if type(weight) is not nn.Parameter:
        return False
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    is_supported = has_onednn and torch.backends.cpu.get_cpu_capability().startswith("AVX")
    return is_supported and weight.device.type == "cpu" and weight.dtype == torch.float32
