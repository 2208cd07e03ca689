"""Whether a draft that decodes alone repeats itself, as small models do where no target corrects them.

Pure. Knows tokens, not what they mean.
"""

from collections.abc import Sequence

STOPPED = "the draft began to repeat itself and was stopped"
"""The note for a person."""

_GRAM_TOKENS = 4
_STALE_GRAMS = 32
"""About two lines. Tables and code repeat a line, rarely two without any change."""


def repeats_itself(tokens: Sequence[int]) -> bool:
    """Whether each of the latest 32 4-grams occurred before. So repetitions need not be identical, as long as they
    bring nothing new."""
    grams = [tuple(tokens[start : start + _GRAM_TOKENS]) for start in range(len(tokens) - _GRAM_TOKENS + 1)]
    return len(grams) > _STALE_GRAMS and set(grams[:-_STALE_GRAMS]).issuperset(grams[-_STALE_GRAMS:])
