"""Answers made up for reports."""

from common.rounds import RoundsAnswer
from netem.experiments.one_device.bench import TimedRounds


def measured(accept_length: int, tokens: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8, 9), levels: int = 6) -> TimedRounds:
    """An answer whose every pass commits `accept_length` of the tokens behind the first."""
    passes = (len(tokens) - 1) // accept_length
    return TimedRounds(RoundsAnswer(tokens, 1 + passes, levels * passes, (7,) * passes, 100), seconds=0.5)
