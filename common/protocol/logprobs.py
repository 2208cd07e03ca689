"""Log-probabilities of committed tokens: what a Commit says of each. Pure.

It may not know logits, nor how an app is told. The values are the target's own, before bias, penalties, constraint,
temperature and filters, as vLLM's `raw_logprobs` are, so that they depend on the tokens before alone.
"""

from dataclasses import dataclass

MAX_TOP_LOGPROBS = 20
"""OpenAI's limit."""

LEAST_LOGPROB = -9999.0
"""Stands for all that is less likely, as in OpenAI's API: JSON has no infinity."""


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Of one committed token: `logp` is its own log-probability, and `top` are the likeliest tokens of its position,
    each with its own, the likeliest first. From LEAST_LOGPROB to 0."""

    logp: float
    top: tuple[tuple[int, float], ...] = ()
