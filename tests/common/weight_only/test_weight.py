"""Quantised matrices are as near to the original as their step allows, whatever its sizes and numbers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from common.weight_only.modes import GROUP, INT4, INT8, QUANTISED
from common.weight_only.weight import QuantisedWeight, nibbles, quantise

_BF16_HALF_STEP = 2.0**-8  # of a number that is rounded to bfloat16, relative to it


def half_steps(weight: QuantisedWeight) -> torch.Tensor:
    """`[rows, columns]`: the most that rounding to the nearest step moves each weight."""
    scales = weight.scales.float()
    if weight.weights_mode == INT8:
        return (scales / 2)[:, None].expand(weight.shape)
    half, shift = scales[..., 0] / 2, scales[..., 1].abs() * _BF16_HALF_STEP
    return (half + shift).repeat_interleave(GROUP, dim=1)[:, : weight.shape[1]]


@given(
    st.sampled_from(sorted(QUANTISED)),
    st.integers(1, 40),
    st.integers(1, 100),
    st.floats(1e-6, 1e4),
    st.floats(-3, 3),
    st.integers(0, 2**31),
)
def test_no_weight_is_off_by_more_than_half_a_step(mode, rows, columns, spread, shift, seed):
    drawn = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    matrix = (drawn + shift) * spread
    weight = quantise(matrix, mode)
    error = (weight.dequantised(torch.float32) - matrix).abs()
    assert weight.shape == matrix.shape
    assert bool((error <= half_steps(weight) * (1 + 1e-5)).all())


@pytest.mark.parametrize(("mode", "steps"), [(INT8, 127), (INT4, 15 / 2)])
def test_a_step_is_as_small_as_the_range_allows(mode, steps):
    matrix = torch.randn(64, 96, generator=torch.Generator().manual_seed(1))
    error = (quantise(matrix, mode).dequantised(torch.float32) - matrix).abs()
    assert error.amax() <= 1.1 * matrix.abs().amax() / steps / 2


@pytest.mark.parametrize("mode", QUANTISED)
def test_zeros_stay_zeros(mode):
    weight = quantise(torch.zeros(3, 40), mode)
    assert bool((weight.dequantised(torch.float32) == 0).all())


def test_int4_keeps_two_weights_in_a_byte():
    weight = quantise(torch.arange(64.0).view(1, 64) % 16, INT4)
    assert weight.packed.tolist()[0][:8] == [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]
    assert nibbles(weight.packed).tolist()[0] == [*range(16)] * 4


@pytest.mark.parametrize("mode", QUANTISED)
def test_rows_are_those_of_the_whole(mode):
    weight = quantise(torch.randn(9, 40), mode)
    chosen = torch.tensor([7, 0, 7])
    assert torch.equal(weight.rows(chosen).dequantised(torch.float32), weight.dequantised(torch.float32)[chosen])
