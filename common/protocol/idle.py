"""Idle policies: when a session whose root awaits its next pass takes part in one. One function, one policy.

A policy gets a `Waiting` and returns the time, in seconds, from which the session takes part in a pass. It is called
again after every event of the session.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waiting:
    """A session that could take part in a pass. Times in seconds on the server's clock, tokens where not said."""

    nodes: int  # unprocessed nodes below the root
    answered: bool  # a Grow came that knows this frontier
    exhausted: bool  # the client has nothing to propose at this frontier
    since_s: float  # when the root was committed
    response_s: float  # measured: from a commit to the first nodes that know it
    level_gain: float = 0.0  # that one more level of server drafting adds to the next pass; 0 without server drafting
    tokens_per_s: float = 0.0  # of this answer, recently
    miss_rate: float = 0.0  # the share of tokens that no node proposed
    level_s: float = 0.0  # between two levels of server drafting
    levels_per_pass: float = 0.0  # of server drafting in the time of a pass
    pass_s: float = 0.0
    can_join_pass: bool = False  # a pass begins now, for another session


PATIENT_NODES = 8

_MAX_WAIT = 0.5
"""The longest wait for the server drafter, in passes."""


def eager(waiting: Waiting) -> float:
    """Run the next pass at once: never slower than plain decoding on the server."""
    return waiting.since_s


def patient(waiting: Waiting) -> float:
    """Wait for enough nodes, for an empty Grow, or for one response time: most tokens per pass."""
    if waiting.nodes >= PATIENT_NODES or waiting.exhausted:
        return waiting.since_s
    return waiting.since_s + waiting.response_s


def lockstep(waiting: Waiting) -> float:
    """Wait for the client's tree however long it takes: the rounds of published systems, as a baseline.

    Nodes that remain from the last round do not count, or a slow client would get passes over few nodes.
    """
    return waiting.since_s if waiting.answered else math.inf


def assist(waiting: Waiting) -> float:
    """Wait for the server drafter as long as that shortens the time to the next token that the drafts miss.

    Drafting goes on during passes, so a level that is too late for one pass is there for the next. With a miss rate h
    and L levels in the time of a pass, w levels are all right with probability (1 - h)^w. The expected time to the next
    miss is least where that equals the mean of (1 - h)^i over the L levels of a pass, (1 - (1 - h)^L) / (h L). Where
    the drafts are better than usual this wait would be long; `_MAX_WAIT` keeps the gaps between commits even.

    A pass that begins now for another session would be missed: taking part costs nothing, for levels are drafted during
    it too, and the next pass begins as it ends.
    """
    if waiting.can_join_pass:
        return waiting.since_s
    kept = (1 - waiting.miss_rate) ** waiting.levels_per_pass
    missed = waiting.miss_rate * waiting.levels_per_pass
    enough = (1 - kept) / missed if missed > 1e-6 else 1.0
    return waiting.since_s + _MAX_WAIT * waiting.pass_s if waiting.level_gain > enough else waiting.since_s


def colocated(waiting: Waiting) -> float:
    """Draft on the server between passes while one more level adds more tokens per second than the answer has had, as
    published systems do with a draft model beside the target: a baseline.

    That is the best time to end a round where rounds repeat (Dinkelbach 1967; Charnov's marginal value theorem).
    """
    return math.inf if waiting.level_gain > waiting.tokens_per_s * waiting.level_s else waiting.since_s


@dataclass(frozen=True, slots=True)
class IdlePolicy:
    """`server_drafts`: the server drafts for the session too. `overlaps`: also while the session is in a pass.
    `min_levels`: only while there are so many levels in the time of a pass, as `PassTimings.has_levels` has it."""

    due: Callable[[Waiting], float]
    server_drafts: bool = False
    overlaps: bool = False
    min_levels: float = 0.0


IDLE_POLICIES: dict[str, IdlePolicy] = {
    "auto": IdlePolicy(assist, server_drafts=True, overlaps=True, min_levels=1.0),
    "eager": IdlePolicy(eager),
    "patient": IdlePolicy(patient),
    "lockstep": IdlePolicy(lockstep),
    "assist": IdlePolicy(assist, server_drafts=True, overlaps=True),
    "colocated": IdlePolicy(colocated, server_drafts=True),
}
