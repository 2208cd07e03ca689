"""Products of activations with quantised weights: torch's own kernels, what they want of a weight, and which of them a
device has.

- int8 on a processor with VNNI: activations are rounded to int8 as well, with a scale for each row, and oneDNN
  multiplies integers. It reads the weights once for any number of rows (W8A8 with scales by token and by channel, as in
  SmoothQuant, Xiao et al. 2023, arXiv 2211.10438). The weights are copied in oneDNN's order.
- int8 and int4 on any other CPU: bfloat16 activations by int8 or int4 weights.
- another device: a weight is dequantised for each product.

It may not know layers, models or drafts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from safetensors import SafetensorError
from torch.nn import functional

from common.weight_only.files import read_mapped
from common.weight_only.modes import GROUP, INT8, padded
from common.weight_only.weight import QuantisedWeight, nibbles

Product = Callable[[torch.Tensor], torch.Tensor]
"""`[count, rows of the weight]` of activations `[count, columns]`, contiguous, in any floating-point dtype."""

KernelLayout = tuple[torch.Tensor, torch.Tensor]
"""An int4 weight as torch's CPU kernel wants it, which depends on the processor: uint8 `[rows, columns / 2]`, and
bfloat16 `[columns / GROUP, rows, 2]` of scales and zeros; rows are filled up to a multiple of 16."""

_INT4_ROWS = 16
"""The int4 kernel takes multiples of so many rows."""

_INT4_ROWS_AT_ONCE = 512
"""Rows that are packed at once; the kernel's own blocks divide it."""

_INT8_ROWS_AT_ONCE = 16384
"""Rows of a weight that are copied into oneDNN's order at once, so that no second whole weight is in memory."""

_MOST_INT8 = 127
_ZERO_UINT8 = 128
"""What stands for 0 in an activation: oneDNN has a fast kernel for unsigned activations alone."""


def make_product(
    weight: QuantisedWeight, device: torch.device, kept: torch.Tensor | None = None, layout: KernelLayout | None = None
) -> Product:
    """With a weight, or its rows `kept`, int64 `[rows]`. layout: that of the whole weight in int4, if it exists."""
    if device.type == "cpu" and weight.weights_mode == INT8 and multiplies_integers():
        return _integer_product(weight, kept)
    own = weight if kept is None else _mapped_anew(weight).rows(kept.to(weight.packed.device))
    if device.type != "cpu":
        moved = own.on(device)
        return lambda x: functional.linear(x, moved.dequantised(x.dtype))
    if weight.weights_mode == INT8:
        return lambda x: torch._weight_int8pack_mm(_filled(x, torch.bfloat16), own.packed, own.scales).to(x.dtype)
    return _int4_product(layout if layout is not None and kept is None else kernel_layout(own), len(own))


def multiplies_integers() -> bool:
    """Whether this CPU has the instructions. Others may saturate sums of two products at 16 bits."""
    return torch.backends.mkldnn.is_available() and torch.cpu._is_vnni_supported()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True, eq=False)
class _IntegerRows:
    """Up to 16,384 rows of an int8 weight. span: where their results go; packed: in oneDNN's order; scales and zeros:
    float32 and int32 `[rows]`."""

    span: slice
    packed: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor

    def multiply(self, x: torch.Tensor) -> torch.Tensor:
        """float32 `[count, rows]` of uint8 `[count, padded]`."""
        multiply = torch.ops.onednn.qlinear_pointwise
        given = (self.packed, self.scales, self.zeros)
        sums: torch.Tensor = multiply(x, 1.0, _ZERO_UINT8, *given, None, 1.0, 0, torch.float32, "none", [], "")
        return sums


def _integer_product(weight: QuantisedWeight, kept: torch.Tensor | None) -> Product:
    scales = (weight.scales if kept is None else weight.scales[kept]).float()
    parts = [
        _IntegerRows(
            span,
            torch.ops.onednn.qlinear_prepack(numbers, None),
            scales[span],
            torch.zeros(len(numbers), dtype=torch.int32),
        )
        for span, numbers in _numbers(weight, kept)
    ]

    def product(x: torch.Tensor) -> torch.Tensor:
        wide = _filled(x.detach(), torch.float32)
        steps = wide.abs().amax(dim=1, keepdim=True).clamp_(min=torch.finfo(torch.float32).tiny) / _MOST_INT8
        rounded = (wide / steps).round_().add_(_ZERO_UINT8).to(torch.uint8)
        out = x.new_empty(len(x), len(scales))
        for part in parts:
            torch.mul(part.multiply(rounded), steps, out=out[:, part.span])
        return out

    return product


def _numbers(weight: QuantisedWeight, kept: torch.Tensor | None) -> Iterator[tuple[slice, torch.Tensor]]:
    """Spans of the rows, and the int8 `[up to 16384, padded]` there."""
    count = len(weight) if kept is None else len(kept)
    for start in range(0, count, _INT8_ROWS_AT_ONCE):
        span = slice(start, min(start + _INT8_ROWS_AT_ONCE, count))
        yield span, _mapped_anew(weight).packed[span if kept is None else kept[span]]


def _mapped_anew(weight: QuantisedWeight) -> QuantisedWeight:
    """The same weight through another mapping of its file, where it has one: pages that are read count as this
    process's memory until that mapping ends."""
    if weight.origin is None:
        return weight
    file, name = weight.origin
    try:
        again = read_mapped(file)[name]
    except (OSError, SafetensorError, ValueError, KeyError):
        return weight  # the first mapping outlives the file
    if not isinstance(again, QuantisedWeight) or again.weights_mode != weight.weights_mode:
        return weight
    return again if again.packed.shape == weight.packed.shape else weight


def _filled(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`[count, padded]`."""
    return functional.pad(x.to(dtype), (0, padded(x.shape[1]) - x.shape[1])).contiguous()


def _int4_product(layout: KernelLayout, rows: int) -> Product:
    packed, scales = layout

    def product(x: torch.Tensor) -> torch.Tensor:
        out = torch.ops.aten._weight_int4pack_mm_for_cpu(_filled(x, torch.bfloat16), packed, GROUP, scales)
        chosen: torch.Tensor = out[:, :rows].to(x.dtype)
        return chosen

    return product


def kernel_layout(weight: QuantisedWeight) -> KernelLayout:
    """Of an int4 weight, on the CPU."""
    # In one piece: parts that are kept between larger ones that are not would leave the heap full of holes.
    packed = torch.empty(packed_rows(weight), weight.packed.shape[1], dtype=torch.uint8)
    for span, part in zip(packed.split(_INT4_ROWS_AT_ONCE), packed_parts(weight), strict=True):  # type: ignore[no-untyped-call]
        span.copy_(part)
    return packed, packed_scales(weight)


def packed_rows(weight: QuantisedWeight) -> int:
    """The rows of its kernel layout."""
    return -(-len(weight) // _INT4_ROWS) * _INT4_ROWS


def packed_parts(weight: QuantisedWeight) -> Iterator[torch.Tensor]:
    """The first half of its kernel layout, 512 rows at a time."""
    for start in range(0, len(weight), _INT4_ROWS_AT_ONCE):
        numbers = nibbles(weight.packed[start : start + _INT4_ROWS_AT_ONCE]).int()
        numbers = functional.pad(numbers, (0, 0, 0, -len(numbers) % _INT4_ROWS))
        packed: torch.Tensor = torch.ops.aten._convert_weight_to_int4pack_for_cpu(numbers, 1)
        yield packed


def packed_scales(weight: QuantisedWeight) -> torch.Tensor:
    """The second half of its kernel layout."""
    filled = functional.pad(weight.scales, (0, 0, 0, 0, 0, packed_rows(weight) - len(weight)))
    return filled.transpose(0, 1).contiguous()
