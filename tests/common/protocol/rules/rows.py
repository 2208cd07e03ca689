"""A fake target whose choice or distribution at each row is given by the test."""

from collections.abc import Callable, Sequence

import numpy as np

from common.protocol.noise import gumbel
from common.protocol.rules import RULES
from common.protocol.rules.verify_input import VerifyInput
from common.protocol.views import TargetChoices


class Choices:
    """Has a choice at each row, with all probability on it."""

    def __init__(self, choices: Sequence[int], vocabulary: int = 64):
        self._choices, self._vocabulary = choices, vocabulary

    def choice(self, row: int) -> int:
        return self._choices[row]

    def probabilities(self, row: int) -> np.ndarray:
        return np.eye(self._vocabulary)[self._choices[row]]


class Distributions:
    """Has the distribution behind the path to each row; its choice is the likeliest token."""

    def __init__(self, verify_input: VerifyInput, of: Callable[[Sequence[int]], np.ndarray]):
        self._verify_input, self._of = verify_input, of

    def choice(self, row: int) -> int:
        return int(self.probabilities(row).argmax())

    def probabilities(self, row: int) -> np.ndarray:
        return self._of(self._verify_input.path(row)).astype(float)


class Samples(Distributions):
    """Its choice is its sample for the given seed."""

    def choice(self, row: int) -> int:
        position = self._verify_input.frontier + len(self._verify_input.path(row))
        return seeded_choice(self.probabilities(row), self._verify_input.sampling.seed, position)


def seeded_choice(p: np.ndarray, seed: int, position: int) -> int:
    """The token that a target with distribution `p` samples at a position."""
    kept = np.flatnonzero(p)
    return int(kept[(np.log(p[kept]) + gumbel(seed, position, kept)).argmax()])


def decide(verify_input: VerifyInput | None, choices: Sequence[int]) -> list[int]:
    """The rule's result for a choice at each row; nothing where there is no input."""
    return [] if verify_input is None else RULES[verify_input.rule].walk(verify_input, Choices(choices))


def choices_of(verified: VerifyInput, likeliest: Sequence[int]) -> TargetChoices:
    """What drafters beside the target are told of a pass: the `likeliest` token behind each row."""
    return TargetChoices(verified.frontier, verified.tokens, verified.parents, likeliest)
