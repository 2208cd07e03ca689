"""Whether text that a draft writes alone goes round in circles, which small models do and nobody is there to stop.

Pure. Knows tokens, not what they mean.
"""

from collections.abc import Sequence

STOPPED = "the draft began to repeat itself and was stopped"
"""What a person is told of it."""

_GRAM_TOKENS = 4
_STALE_GRAMS = 32
"""About two lines. Tables and code repeat a line, rarely two without any change."""


def repeats_itself(tokens: Sequence[int]) -> bool:
    """Whether each of the latest 32 groups of four tokens in a row stood there before. So the copies of a loop need not
    be the same, as long as they bring nothing new."""
    grams = [tuple(tokens[start : start + _GRAM_TOKENS]) for start in range(len(tokens) - _GRAM_TOKENS + 1)]
    return len(grams) > _STALE_GRAMS and set(grams[:-_STALE_GRAMS]).issuperset(grams[-_STALE_GRAMS:])
