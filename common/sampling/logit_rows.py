"""The target's logits as a rule sees them: row by row, and only visited rows are processed."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from common.protocol.logprobs import LEAST_LOGPROB, TokenLogprobs
from common.protocol.noise import GUMBEL, UNIT, random_bits
from common.protocol.rules.verify_input import VerifyInput
from common.sampling.preceding import NOTHING, Preceding, Text
from common.sampling.processors import Processors


class UnusableLogitsError(Exception):
    """A row that the walk visits has no finite largest logit."""


class LogitRows:
    """The target at the rows of one verify input."""

    def __init__(
        self,
        verify_input: VerifyInput,
        logits: torch.Tensor,
        likeliest: Sequence[int],
        finite: Sequence[int] | None = None,
    ):
        """`logits [rows, vocabulary]`, one row for each of the verify input's; `likeliest` is their argmax, and
        `finite` says whose maximum is finite, None that all are. Walks raise UnusableLogitsError at one that is not."""
        self._finite = finite
        self._verify_input = verify_input
        self._logits = logits
        self._likeliest = likeliest
        self._processors = Processors(verify_input.sampling, verify_input.prompt_length, verify_input.constraint)
        self._text = Text(verify_input.seen)
        self._processed: dict[int, torch.Tensor] = {}

    def choice(self, row: int) -> int:
        self._check(row)
        sampling = self._verify_input.sampling
        if not sampling.temperature:
            return self._likeliest[row] if self._processors.keep_argmax else int(self._scores(row).argmax())
        return sampled(
            self._scores(row), sampling.seed, self._verify_input.frontier + len(self._verify_input.path(row))
        )

    def probabilities(self, row: int) -> NDArray[np.float64]:
        self._check(row)
        if self._verify_input.sampling.temperature:
            probabilities: NDArray[np.float64] = self._scores(row).double().softmax(-1).cpu().numpy()
            return probabilities
        certain = np.zeros(self._logits.shape[-1])
        certain[self.choice(row)] = 1.0
        return certain

    def _check(self, row: int) -> None:
        if self._finite is not None and not self._finite[row]:
            raise UnusableLogitsError

    def _scores(self, row: int) -> torch.Tensor:
        """Processed logits, float32 `[vocabulary]`, where float64 can be computed."""
        if row not in self._processed:
            before = Preceding(self._text, [self._verify_input.path(row)]) if self._processors.needs_tokens else NOTHING
            logits = _where_double_is(self._logits[row : row + 1])
            self._processed[row] = self._processors(logits, before)[0]
        return self._processed[row]


def sampled(scores: torch.Tensor, seed: int, position: int, columns: torch.Tensor | None = None) -> int:
    """The token that is sampled at a position, by Gumbel-max, from processed logits: `scores [columns]`, of which at
    least one is finite. `columns`: their tokens, None for the whole vocabulary."""
    scores = _where_double_is(scores)
    kept = scores.isfinite().nonzero().squeeze(-1)
    tokens = kept if columns is None else columns.to(kept.device)[kept]
    return int(tokens[(scores[kept].double() + gumbel(seed, position, tokens)).argmax()])


def logprobs_of(logits: torch.Tensor, tokens: Sequence[int], top: int) -> tuple[TokenLogprobs, ...]:
    """Of each of the tokens behind its row of `logits [tokens, vocabulary]`, and of the `top` likeliest beside it."""
    logps = _where_double_is(logits).double().log_softmax(-1).clamp(LEAST_LOGPROB, 0.0)
    own = logps[torch.arange(len(tokens)), torch.tensor(tokens, device=logps.device)].tolist()
    best = logps.topk(min(top, logps.shape[-1]))
    ranked = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return tuple(TokenLogprobs(logp, tuple(zip(*row, strict=True))) for logp, row in zip(own, ranked, strict=True))


def gumbel(seed: int, positions: torch.Tensor | int, tokens: torch.Tensor) -> torch.Tensor:
    """Standard Gumbel noise of each token, on the device of `tokens`: float64 in the shape of `tokens` (int64), which
    `positions` broadcast to. The bits are those of `common.protocol.noise`, the floats within 2 ulp of 1."""
    bits = random_bits(seed, GUMBEL, positions, tokens)
    return -torch.log(-torch.log((bits.double() + 0.5) * UNIT))


def _where_double_is(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor where it is, or on the CPU where its device has no float64."""
    return tensor.cpu() if tensor.device.type == "mps" else tensor
