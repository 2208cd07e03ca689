"""Counter-based random numbers: client and server can each compute the noise of any token by itself.

Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). All arithmetic works on Python
integers, numpy int64 arrays and torch int64 tensors alike and gives the same bits; here it is turned into floats by
numpy, in `common/sampling/logit_rows.py` by torch.

The key is the seed. The counter is (token / 2, position, purpose, 0): each call gives 128 bits, 64 for each of two
tokens, of which 52 are used.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

GUMBEL, UNIFORM = 0, 1
"""The purposes of noise; streams of different purposes are independent."""

UNIT = 2.0**-52
"""(bits + 0.5) * UNIT lies inside (0, 1) and is exact in double precision, so the Gumbel tail reaches 36."""

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD = 0xFFFFFFFF

Words = tuple[Any, Any, Any, Any]
"""Four integers of 32 bits each, or arrays of them."""


def philox4x32(counter: Words, key: tuple[int, int]) -> Words:
    """Four random words for a counter of four words and a key of two.

    Products wrap around modulo 2^64 in the arrays' signed integers, which leaves both of their halves right.
    """
    a, b, c, d = counter
    left, right = key
    for _ in range(_ROUNDS):
        first, second = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b, c, d = (
            (second >> 32) & _WORD ^ b ^ left,
            second & _WORD,
            (first >> 32) & _WORD ^ d ^ right,
            first & _WORD,
        )
        left, right = (left + _WEYL[0]) & _WORD, (right + _WEYL[1]) & _WORD
    return a, b, c, d


def random_bits(seed: int, purpose: int, position: Any, index: Any) -> Any:
    """52 random bits for each `position` and `index` (a token, or a draw's number): integers or arrays of them."""
    zero = index * 0
    w, x, y, z = philox4x32((index >> 1, position + zero, purpose + zero, zero), (seed & _WORD, seed >> 32))
    odd = index & 1
    high, low = w + odd * (y - w), x + odd * (z - x)
    return ((high >> 6) << 26) | (low >> 6)


def gumbel(seed: int, positions: ArrayLike, tokens: ArrayLike) -> NDArray[np.float64]:
    """Standard Gumbel noise of each token: float64 in the shape of `tokens`, which `positions` broadcast to."""
    # Arrays wrap around silently, numpy's scalars with a warning.
    bits = random_bits(seed, GUMBEL, np.atleast_1d(positions).astype(np.int64), np.atleast_1d(tokens).astype(np.int64))
    noise: NDArray[np.float64] = -np.log(-np.log((bits + 0.5) * UNIT))
    return noise.reshape(np.shape(tokens))


def uniform(seed: int, position: int, index: int) -> float:
    """The `index`-th uniform random number of a position, in (0, 1)."""
    return float((random_bits(seed, UNIFORM, position, index) + 0.5) * UNIT)
