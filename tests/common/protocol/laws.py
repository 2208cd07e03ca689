"""Targets without a model that have a distribution behind every prefix, and the effect of Sampling on their logits."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from common.protocol.sampling import Sampling

Law = Callable[[tuple[int, ...]], NDArray[np.float64]]
"""The distribution behind a prefix: `[vocabulary]`. Pure; callers leave the array as it is."""


def random_law(salt: int, vocabulary: int, sampling: Sampling, impossible: Iterable[int] = ()) -> Law:
    """A distribution that depends on every token of the prefix."""
    never = list(impossible)

    @cache
    def law(prefix: tuple[int, ...]) -> NDArray[np.float64]:
        logits = np.random.default_rng([salt, *prefix]).normal(scale=1.5, size=vocabulary)
        logits[never] = -np.inf
        return processed(logits, sampling, prefix)

    return law


def processed(logits: NDArray[np.float64], sampling: Sampling, before: Sequence[int] = ()) -> NDArray[np.float64]:
    """The distribution that is sampled from: penalty, temperature, top-k, top-p, min-p, one after another."""
    scores = logits.astype(float)
    seen = sorted(set(before))
    factors = np.where(scores[seen] < 0, sampling.repetition_penalty, 1 / sampling.repetition_penalty)
    scores[seen] = np.where(np.isfinite(scores[seen]), scores[seen] * factors, scores[seen])
    if sampling.temperature == 0:
        return np.eye(len(scores))[scores.argmax()]
    p = softmax(scores / sampling.temperature)
    if 0 < sampling.top_k < len(p):
        p = _only(p, p >= np.sort(p)[-sampling.top_k])
    rising = np.argsort(p, kind="stable")
    kept = np.cumsum(p[rising]) > 1 - sampling.top_p
    kept[-1] = True
    p = _only(p, np.isin(np.arange(len(p)), rising[kept]))
    return _only(p, p >= sampling.min_p * p.max())


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    shares = np.exp(scores - scores.max())
    return np.asarray(shares / shares.sum(), float)


def sequence_chances(law: Law, prefix: Sequence[int], length: int) -> NDArray[np.float64]:
    """The probability of each sequence of `length` tokens behind a prefix: one axis a token."""
    vocabulary = len(law(tuple(prefix)))
    chances = np.ones((vocabulary,) * length)
    for tokens in itertools.product(range(vocabulary), repeat=length):
        for index, token in enumerate(tokens):
            chances[tokens] *= law((*prefix, *tokens[:index]))[token]
            if not chances[tokens]:
                break
    return chances


def _only(p: NDArray[np.float64], kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    left = np.where(kept, p, 0.0)
    return left / left.sum()
