"""A matrix in few bits, quantised and dequantised.

int8 is symmetric with one scale for each row, an output channel: w = scale * q, |q| <= 127. int4 is asymmetric with a
scale and a zero for each group of a row: w = scale * (q - 8) + zero, 0 <= q <= 15, as torch's kernel defines it. Both
round to nearest, so that no weight is off by more than half a step, which is `scale`; in int4, rounding the zero to
bfloat16 adds to that.

It may not know files, layers or kernels.
"""

from pathlib import Path
from typing import Self

import torch
from torch.nn import functional

from common.weight_only.modes import GROUP, INT4, INT8, padded

_MOST_INT8 = 127
_STEPS_INT4 = 15
_MIDDLE_INT4 = 8
_SMALLEST = 2.0**-100
"""A scale in place of 0, where all weights are equal."""


class QuantisedWeight(torch.Tensor):
    """A tensor on the device `meta`, which tells the matrix's shape to code that reads no numbers, and carries them.

    weights_mode: int8 or int4. packed: int8 `[rows, padded]`, or uint8 `[rows, padded / 2]` with column 2i in the low
    half of byte i and 2i + 1 in the high half. scales: bfloat16 `[rows]`, or `[rows, padded / GROUP, 2]`, each group's
    scale and zero. Columns are padded to whole groups.
    """

    weights_mode: str
    packed: torch.Tensor
    scales: torch.Tensor
    origin: tuple[Path, str] | None
    """The file from which it was read, and its name there; None if it was made here."""

    @classmethod
    def of(
        cls,
        mode: str,
        packed: torch.Tensor,
        scales: torch.Tensor,
        columns: int,
        origin: tuple[Path, str] | None = None,
    ) -> Self:
        shaped = torch.empty(len(packed), columns, device="meta", dtype=torch.bfloat16)
        weight: Self = torch.Tensor._make_subclass(cls, shaped)
        weight.weights_mode, weight.packed, weight.scales, weight.origin = mode, packed, scales, origin
        return weight

    def rows(self, index: torch.Tensor) -> "QuantisedWeight":
        """The rows of `index`, int64 `[count]`, in its order."""
        return QuantisedWeight.of(self.weights_mode, self.packed[index], self.scales[index], self.shape[1])

    def on(self, device: torch.device) -> "QuantisedWeight":
        return QuantisedWeight.of(self.weights_mode, self.packed.to(device), self.scales.to(device), self.shape[1])

    def dequantised(self, dtype: torch.dtype) -> torch.Tensor:
        """`[rows, columns]` on the device of the packed numbers, computed in float32."""
        if self.weights_mode == INT8:
            return (self.packed[:, : self.shape[1]].float() * self.scales.float()[:, None]).to(dtype)
        grouped = nibbles(self.packed).view(len(self), -1, GROUP).float() - _MIDDLE_INT4
        scale, zero = self.scales.float().unsqueeze(2).unbind(-1)
        dequantised: torch.Tensor = (grouped * scale + zero).flatten(1)[:, : self.shape[1]].to(dtype)
        return dequantised


def nibbles(packed: torch.Tensor) -> torch.Tensor:
    """The numbers 0 to 15 of an int4 weight, uint8 `[rows, columns]`, from uint8 `[rows, columns / 2]`."""
    return torch.stack((packed & 15, packed >> 4), dim=-1).flatten(1)


def quantise(matrix: torch.Tensor, mode: str) -> QuantisedWeight:
    """Of `[rows, columns]` in any floating-point dtype."""
    columns = matrix.shape[1]
    filled = functional.pad(matrix.float(), (0, padded(columns) - columns))
    return QuantisedWeight.of(mode, *{INT8: _to_int8, INT4: _to_int4}[mode](filled), columns)


def _to_int8(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scales = _at_least(matrix.abs().amax(dim=1) / _MOST_INT8)
    values = (matrix / scales.float()[:, None]).round().clamp(-_MOST_INT8, _MOST_INT8)
    return values.to(torch.int8), scales


def _to_int4(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    groups = matrix.reshape(len(matrix), -1, GROUP)
    least, most = groups.amin(dim=2), groups.amax(dim=2)
    scales = _at_least((most - least) / _STEPS_INT4)
    zeros = (least + _MIDDLE_INT4 * scales.float()).to(torch.bfloat16)
    values = ((groups - zeros.float()[..., None]) / scales.float()[..., None]).round() + _MIDDLE_INT4
    numbers = values.clamp(0, _STEPS_INT4).to(torch.uint8).flatten(1)
    packed = numbers[:, ::2] | (numbers[:, 1::2] << 4)
    return packed, torch.stack((scales, zeros), dim=-1)


def _at_least(scales: torch.Tensor) -> torch.Tensor:
    """In bfloat16, rounded up, so that the largest number still fits into the steps."""
    rounded = scales.clamp(min=_SMALLEST).to(torch.bfloat16)
    # The bits of positive floating-point numbers are in the order of the numbers.
    higher = (rounded.view(torch.int16) + 1).view(torch.bfloat16)
    return torch.where(rounded.float() < scales, higher, rounded)
