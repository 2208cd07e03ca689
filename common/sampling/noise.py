"""The noise of `common/protocol/noise.py` on torch's devices: the same bits, floats within 2 ulp of 1."""

import torch

from common.protocol.noise import GUMBEL, UNIT, random_bits


def gumbel(seed: int, positions: torch.Tensor | int, tokens: torch.Tensor) -> torch.Tensor:
    """Standard Gumbel noise of each token: float64 in the shape of `tokens` (int64), which `positions` broadcast to."""
    bits = random_bits(seed, GUMBEL, positions, tokens)
    return -torch.log(-torch.log((bits.double() + 0.5) * UNIT))
