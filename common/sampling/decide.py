"""What a pass commits for one session: a rule's walk over the target's logits. Only visited rows are processed."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from common.protocol.noise import GUMBEL, UNIT, random_bits
from common.protocol.rules import RULES
from common.protocol.rules.verify_input import VerifyInput
from common.sampling.processors import Processors


class UnusableLogitsError(Exception):
    """A row that the walk visits has no finite largest logit."""


def decide(
    verify_input: VerifyInput, logits: torch.Tensor, likeliest: Sequence[int], usable: Sequence[int] | None = None
) -> list[int]:
    """The tokens that follow the root, by the question's rule.

    `logits [rows, vocabulary]` are the target's at each row of the question; `likeliest` is their argmax, and `usable`
    says whose maximum is finite, None that all are. Raises UnusableLogitsError where the walk visits one that is not.
    """
    return RULES[verify_input.rule].walk(verify_input, LogitRows(verify_input, logits, likeliest, usable))


class LogitRows:
    """A target's rows, as rules see them."""

    def __init__(
        self,
        verify_input: VerifyInput,
        logits: torch.Tensor,
        likeliest: Sequence[int],
        usable: Sequence[int] | None = None,
    ):
        self._usable = usable
        self._verify_input = verify_input
        self._logits = logits
        self._likeliest = likeliest
        self._processors = Processors(verify_input.sampling)
        self._processed: dict[int, torch.Tensor] = {}

    def choice(self, row: int) -> int:
        self._check(row)
        sampling = self._verify_input.sampling
        if not sampling.temperature:
            return int(self._scores(row).argmax()) if self._processors.penalise else self._likeliest[row]
        scores = self._scores(row)
        kept = scores.isfinite().nonzero().squeeze(-1)
        noise = gumbel(sampling.seed, self._verify_input.frontier + len(self._verify_input.path(row)), kept)
        return int(kept[(scores[kept].double() + noise).argmax()])

    def probabilities(self, row: int) -> NDArray[np.float64]:
        self._check(row)
        if self._verify_input.sampling.temperature:
            chances: NDArray[np.float64] = self._scores(row).double().softmax(-1).cpu().numpy()
            return chances
        certain = np.zeros(self._logits.shape[-1])
        certain[self.choice(row)] = 1.0
        return certain

    def _check(self, row: int) -> None:
        if self._usable is not None and not self._usable[row]:
            raise UnusableLogitsError

    def _scores(self, row: int) -> torch.Tensor:
        """Processed logits, float32 `[vocabulary]`."""
        if row not in self._processed:
            before = [*self._verify_input.seen, *self._verify_input.path(row)] if self._processors.penalise else ()
            self._processed[row] = self._processors(self._logits[row : row + 1], [before])[0]
        return self._processed[row]


def gumbel(seed: int, positions: torch.Tensor | int, tokens: torch.Tensor) -> torch.Tensor:
    """Standard Gumbel noise of each token, on the device of `tokens`: float64 in the shape of `tokens` (int64), which
    `positions` broadcast to. The bits are those of `common.protocol.noise`, the floats within 2 ulp of 1."""
    bits = random_bits(seed, GUMBEL, positions, tokens)
    return -torch.log(-torch.log((bits.double() + 0.5) * UNIT))
