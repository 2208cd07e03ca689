"""A target that is nothing but what a test says of each row."""

from collections.abc import Callable, Sequence

import numpy as np

from common.protocol.rules import RULES
from common.protocol.rules.question import Question


class Choices:
    """Knows its choice at each row, and that all probability lies on it."""

    def __init__(self, choices: Sequence[int], vocabulary: int = 64):
        self._choices, self._vocabulary = choices, vocabulary

    def choice(self, row: int) -> int:
        return self._choices[row]

    def probabilities(self, row: int) -> np.ndarray:
        return np.eye(self._vocabulary)[self._choices[row]]


class Distributions:
    """Knows the distribution behind the path to each row; its choice is the likeliest token."""

    def __init__(self, question: Question, of: Callable[[Sequence[int]], np.ndarray]):
        self._question, self._of = question, of

    def choice(self, row: int) -> int:
        return int(self.probabilities(row).argmax())

    def probabilities(self, row: int) -> np.ndarray:
        return self._of(self._question.path(row)).astype(float)


def decide(question: Question | None, choices: Sequence[int]) -> list[int]:
    """What the rule makes of a choice at each row; nothing where there is no question."""
    return [] if question is None else RULES[question.rule].walk(question, Choices(choices))
