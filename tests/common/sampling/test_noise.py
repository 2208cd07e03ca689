"""Torch's noise is the protocol's: the same bits, and floats that differ by no more than rounding."""

import numpy as np
import pytest
import torch

from common.protocol import noise as reference
from common.sampling import noise

EPSILON = 2.0**-52


@pytest.mark.parametrize("seed", [0, 1, 2**33 + 5, 2**64 - 1])
def test_gumbel_noise_is_numpys_within_two_units_in_the_last_place(seed):
    positions, tokens = torch.arange(40)[:, None] * 1_000, torch.arange(4_000)[None].repeat(40, 1)
    expected = reference.gumbel(seed, positions.numpy(), tokens.numpy())
    found = noise.gumbel(seed, positions, tokens)
    assert found.dtype == torch.float64
    assert found.shape == tokens.shape
    assert (np.abs(found.numpy() - expected) <= 2 * EPSILON * np.maximum(1, np.abs(expected))).all()


@pytest.mark.parametrize("bits", [0, 1, 2**51, 2**52 - 1])
def test_extreme_bits_give_numpys_finite_noise(monkeypatch, bits):
    for module in (noise, reference):
        monkeypatch.setattr(module, "random_bits", lambda seed, purpose, position, index: index * 0 + bits)
    expected = reference.gumbel(0, 0, [1])[0]
    assert abs(float(noise.gumbel(0, 0, torch.tensor([1]))) - expected) <= 2 * EPSILON * max(1, abs(expected))


def test_a_position_may_be_a_plain_number():
    tokens = torch.tensor([3, 4, 99])
    assert torch.equal(noise.gumbel(7, 12, tokens), noise.gumbel(7, torch.tensor([12]), tokens))
