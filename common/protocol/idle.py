"""Idle policies: what the server does with a session whose root awaits its next pass. One function, one policy.

A policy sees a `Waiting` and answers with the time from which the session takes part in a pass; it is asked again after
everything that happens to the session.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waiting:
    """A session that could take part in a pass. Times in seconds on the server's clock."""

    nodes: int  # unprocessed nodes below the root
    answered: bool  # a Grow came that knows this frontier
    exhausted: bool  # the client has nothing to propose at this frontier
    since: float  # when the root was committed
    response_s: float  # measured: from a commit to the first nodes that know it
    level_gain: float = 0.0  # tokens that one more level drafted here adds to the next pass, 0 where none is drafted
    tokens_per_s: float = 0.0  # tokens per second at which the answer has been coming
    miss_rate: float = 0.0  # the share of tokens that no node proposed
    level_seconds: float = 0.0  # until the next level is drafted here
    levels_per_pass: float = 0.0  # drafted here in the time of a pass
    pass_seconds: float = 0.0


PATIENT_NODES = 8

_MOST_WAIT = 0.5
"""Times a pass, for the server's own drafter."""


def eager(waiting: Waiting) -> float:
    """Decode on at once: never slower than streaming the cloud's own decoding."""
    return waiting.since


def patient(waiting: Waiting) -> float:
    """Wait for nodes, for a client with nothing to propose, or one response time: most tokens per pass."""
    if waiting.nodes >= PATIENT_NODES or waiting.exhausted:
        return waiting.since
    return waiting.since + waiting.response_s


def lockstep(waiting: Waiting) -> float:
    """Wait for the client's tree however long it takes: the rounds of published systems, as a baseline.

    What is left of the last round's tree is no answer, or a slow client would get passes over little.
    """
    return waiting.since if waiting.answered else math.inf


def assist(waiting: Waiting) -> float:
    """Wait for the server's own drafter as long as that shortens the way to the next token that the drafts miss.

    Drafting goes on during passes, so a level that comes too late for one pass is there for the next. With a miss in a
    share h of tokens and L levels in the time of a pass, w levels are all right with a probability of (1 - h)^w. The
    expected time to the next miss is least where that is the mean of (1 - h)^i over the L levels of a pass,
    (1 - (1 - h)^L) / (h L). Where the drafts are surer than usual that would be long, so that a bound keeps the gaps
    between commits even.
    """
    kept = (1 - waiting.miss_rate) ** waiting.levels_per_pass
    missed = waiting.miss_rate * waiting.levels_per_pass
    enough = (1 - kept) / missed if missed > 1e-6 else 1.0
    return waiting.since + _MOST_WAIT * waiting.pass_seconds if waiting.level_gain > enough else waiting.since


def colocated(waiting: Waiting) -> float:
    """Draft on the server between passes for as long as that adds tokens faster than the answer has been coming, as
    published systems do with a draft beside the target: a baseline.

    So a round is best ended where rounds repeat (Dinkelbach 1967; Charnov's marginal value theorem).
    """
    return math.inf if waiting.level_gain > waiting.tokens_per_s * waiting.level_seconds else waiting.since


@dataclass(frozen=True, slots=True)
class IdlePolicy:
    """`server_drafts`: the server drafts for the session too; `overlaps`: also while the session is in a pass;
    `least_levels`: as long as so many levels are drafted for each session in the time of a pass."""

    due: Callable[[Waiting], float]
    server_drafts: bool = False
    overlaps: bool = False
    least_levels: float = 0.0


IDLE_POLICIES: dict[str, IdlePolicy] = {
    "auto": IdlePolicy(assist, server_drafts=True, overlaps=True, least_levels=1.0),
    "eager": IdlePolicy(eager),
    "patient": IdlePolicy(patient),
    "lockstep": IdlePolicy(lockstep),
    "assist": IdlePolicy(assist, server_drafts=True, overlaps=True),
    "colocated": IdlePolicy(colocated, server_drafts=True),
}
