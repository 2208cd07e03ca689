"""What is noted in a draft's configuration after training: what it was measured to be worth, from which clients choose
among drafts, and that its head was trimmed.

What may live here: these figures, and what follows from them. It may not know links, machines or what a level costs,
and imports no torch.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from common.models.errors import CheckpointError
from common.models.source import CONFIG, read_json

LEVELS = 6
"""Of the rounds in which the accept length that is shown is measured."""

LONG_LEVELS, LONG_NODES = 128, 320
"""Of long rounds, which a miss ends, a full tree or the answer, as in a stream: the levels, and the nodes of a tree."""

ACCEPT_KEY = "accept_lengths"
ONE_LEVEL_KEY = "accept_lengths_of_one_level"
LONG_KEY = "accept_lengths_of_long_rounds"
"""Each by the number N of the target's last layers that the draft ran."""

TRIMMED_KEY = "trimmed_from"
"""The name of the draft whose head was trimmed after training; the accept lengths are those of its whole head."""

Value = TypeVar("Value")

_SURE = 0.995
"""The most that a hit rate is taken for: measurements are short."""


@dataclass(frozen=True, slots=True)
class MeasuredAcceptance:
    """Committed tokens per pass in rounds of `LEVELS` levels; in rounds of one, None where that was not measured, which
    is taken for one token a level; and in long rounds, for each held-out prompt, empty where that was not measured."""

    accept_length: float
    one_level: float | None = None
    long_rounds: tuple[float, ...] = ()

    @property
    def hit_rate(self) -> float:
        """The share of tokens that the draft has in its tree, all before them being there.

        An accept length is 1 + a + a^2 + ... (Leviathan et al. 2023, arXiv 2211.17192), up to as many tokens as the
        levels of a round go ahead.
        """
        low, high = 0.0, _SURE
        for _ in range(40):
            middle = (low + high) / 2
            ahead = LEVELS * self._tokens_per_level(middle)
            too_low = (1 - middle ** (ahead + 1)) / (1 - middle) < self.accept_length
            low, high = (middle, high) if too_low else (low, middle)
        return low

    @property
    def miss_rates(self) -> Sequence[float]:
        """The share of tokens that a stream's tree lacks, for each kind of text that is known: a long round
        ends with one. One draft misses seldom in code and often in talk, so that no mean stands for both."""
        return [1 / length for length in self.long_rounds] or [1 - self.hit_rate]

    @property
    def tokens_per_level(self) -> float:
        """How many tokens ahead of the last a level goes; 1 for drafts that guess no further than the next token."""
        return self._tokens_per_level(self.hit_rate)

    def _tokens_per_level(self, hit_rate: float) -> float:
        hits = 0.0 if self.one_level is None else self.one_level - 1
        return max(1.0, hits / hit_rate) if hit_rate > 0 else 1.0


def write_measured_acceptance(directory: Path, by_depth: Mapping[int, MeasuredAcceptance]) -> None:
    """Writes what was measured, by depth, into a draft's configuration: an accept length of 0, where all answers ended
    with their first token, measures nothing and could not be read."""
    measured = {depth: each.accept_length for depth, each in by_depth.items()}
    of_one_level = {depth: each.one_level for depth, each in by_depth.items()}
    for key, lengths in ((ACCEPT_KEY, measured), (ONE_LEVEL_KEY, of_one_level)):
        noted = {str(depth): round(length, 3) for depth, length in lengths.items() if length}
        if noted:
            _note(directory, key, noted)
    long = {str(depth): [round(length, 2) for length in each.long_rounds] for depth, each in by_depth.items()}
    if any(long.values()):
        _note(directory, LONG_KEY, long)


def read_measured_acceptance(directory: Path) -> dict[int, MeasuredAcceptance]:
    """By depth; empty where nothing was measured. Raises CheckpointError for impossible figures."""
    content = read_json(directory / CONFIG)
    one_level = _by_depth(directory, content, ONE_LEVEL_KEY, _length)
    long = _by_depth(directory, content, LONG_KEY, lambda lengths: tuple(map(_length, lengths)))
    return {
        depth: MeasuredAcceptance(length, one_level.get(depth), long.get(depth, ()))
        for depth, length in _by_depth(directory, content, ACCEPT_KEY, _length).items()
    }


def _by_depth(
    directory: Path, content: Mapping[str, Any], key: str, convert: Callable[[Any], Value]
) -> dict[int, Value]:
    try:
        found = {int(depth): convert(value) for depth, value in content.get(key, {}).items()}
        if min(found, default=0) < 0:
            raise ValueError("a depth is negative")
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{directory / CONFIG} has broken '{key}'; fetch or train it again") from error
    return found


def _length(value: Any) -> float:
    length = float(value)
    if not (math.isfinite(length) and length > 0):
        raise ValueError("a length is no positive number")
    return length


def note_trimmed(directory: Path, whole: str) -> None:
    """Writes into a draft's configuration that its head was trimmed after training; `whole` names the draft before."""
    _note(directory, TRIMMED_KEY, whole)


def _note(directory: Path, key: str, value: object) -> None:
    config = read_json(directory / CONFIG) | {key: value}
    (directory / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
