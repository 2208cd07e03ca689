"""`speculative`: the target's distribution, whatever the drafter's.

Siblings are tried in the order in which they were proposed. One that was drawn from q is accepted with probability
min(1, p / q); if it is not, p becomes the normalised max(p - q, 0) and q loses it. One that nobody drew is a point
mass: accepted with probability p, else p loses it. Where none is accepted, or none was there, the bonus token is drawn
from what p has become.

Siblings of several drafters are each judged against the q of their own: where the next was drawn from another one, that
is taken without the tokens that were tried before it.

Leviathan et al. 2023 and Chen et al. 2023 for chains; recursive rejection over one or several drafters of SpecInfer
(Miao et al. 2024, arXiv 2305.09781), without replacement as Jeon et al. 2024, and with point masses as EAGLE-2 (Li et
al. 2024), for trees. It is exact as long as whether a sibling is judged does not depend on what was drawn for it.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from common.protocol.messages import Draw
from common.protocol.noise import uniform
from common.protocol.rules.verify_input import TargetRows, VerifyInput

Distribution = NDArray[np.float64]


def walk(verify_input: VerifyInput, target: TargetRows) -> list[int]:
    """The tokens that a pass commits below its root; the last of them is the bonus token, or carried by a node behind
    which the next pass chooses."""
    children = verify_input.children()
    tokens: list[int] = []
    row = 0
    while True:
        uniforms = _Uniforms(verify_input.sampling.seed, verify_input.frontier + len(tokens))
        group = [int(verify_input.tokens[child]) for child in children[row]]
        draws = [verify_input.draws.get(child) for child in children[row]]
        accepted, left = judge(target.probabilities(row), group, draws, uniforms)
        if accepted is None:
            return [*tokens, sample(left, uniforms.next())]
        tokens.append(group[accepted])
        row = children[row][accepted]
        if row in verify_input.deferred:
            return tokens


def judge(
    p: Distribution, group: Sequence[int], draws: Sequence[Draw | None], uniforms: "_Uniforms"
) -> tuple[int | None, Distribution]:
    """Which of a group's tokens is accepted, by its index, and what is left of `p` where none is. `draws`: what each
    token was drawn from, None for a point mass."""
    tried = set[int]()
    for index, (token, draw) in enumerate(zip(group, draws, strict=True)):
        q = {token: 1.0} if draw is None else _left_of(draw, tried)
        tried.add(token)
        if uniforms.next() * q[token] < p[token]:
            return index, p
        tokens = np.fromiter(q, np.int64)
        p[tokens] = np.maximum(p[tokens] - np.fromiter(q.values(), np.float64), 0.0)
        p[token] = 0.0
        mass = p.sum()
        # Nothing is left where p and q differ by rounding alone.
        if mass <= 0.0:
            return index, p
        p /= mass
    return None, p


def _left_of(draw: Draw, tried: AbstractSet[int]) -> dict[int, float]:
    """The probabilities of a draw's tokens, without those that were tried."""
    weights = {token: weight for token, weight in zip(draw.tokens, draw.weights, strict=True) if token not in tried}
    total = sum(weights.values())
    return {token: weight / total for token, weight in weights.items()}


def sample(p: Distribution, uniform: float) -> int:
    """The token at the share `uniform` of all probability."""
    below = np.cumsum(p)
    return min(int(np.searchsorted(below, uniform * below[-1], side="right")), int(np.flatnonzero(p)[-1]))


class _Uniforms:
    """The uniform numbers of one position, one after another."""

    def __init__(self, seed: int, position: int):
        self._seed, self._position, self._drawn = seed, position, 0

    def next(self) -> float:
        self._drawn += 1
        return uniform(self._seed, self._position, self._drawn - 1)
