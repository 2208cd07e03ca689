"""Server-side speculation as engines with a batched draft model do it, computed: rounds in which the draft model beside
the target drafts a chain for all sessions together, and one pass verifies all chains.

An upper bound: a level costs the same for one session and for all, sessions never wait for each other's ends, and
prompts and links cost nothing. Every round has the length that is fastest for so many sessions, as SmartSpec (Liu et
al. 2024, arXiv 2406.14066) chooses it. Pure: recorded acceptance and costs. Seconds and tokens.
"""

from dataclasses import dataclass

from client.stats import per
from netem.experiments.capacity.acceptance import Recording
from server.options import Pace

_LEVELS = range(33)


@dataclass(frozen=True, slots=True)
class Round:
    """The fastest round of so many sessions: its levels, its time, and the tokens that each session gets of it."""

    levels: int
    seconds: float
    tokens: float

    @property
    def tokens_per_second(self) -> float:
        return per(self.tokens, self.seconds)


def best_round(recording: Recording, pace: Pace, sessions: int) -> Round:
    return max(
        (
            Round(
                levels, levels * pace.per_level + pace.cost(sessions * (1 + levels)), tokens_of_round(recording, levels)
            )
            for levels in _LEVELS
        ),
        key=lambda each: each.tokens_per_second,
    )


def tokens_of_round(recording: Recording, levels: int) -> float:
    """The mean of the tokens that rounds commit on their way through all recorded answers, the bonus token included."""
    rounds = tokens = 0
    for answer in recording.answers:
        hits = [offer.taken == 0 for offer in answer.offers]
        at = 0
        while at < len(hits):
            end = min(at + levels, len(hits) - 1)
            at = next((index for index in range(at, end) if not hits[index]), end) + 1
            rounds += 1
        tokens += len(hits)
    return per(tokens, rounds)
