"""Idle policies: what the server does with a session whose root awaits its next pass. One function, one policy.

A policy sees a `Waiting` and answers with the time from which the session takes part in a pass.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waiting:
    """A session that could take part in a pass. Times in seconds on the server's clock."""

    nodes: int  # unprocessed nodes below the root
    exhausted: bool  # the client has nothing to propose at this frontier
    since: float  # when the root was committed
    response_time: float  # measured: from a commit to the first nodes that know it


PATIENT_NODES = 8


def eager(waiting: Waiting) -> float:
    """Decode on at once: never slower than streaming the cloud's own decoding."""
    return waiting.since


def patient(waiting: Waiting) -> float:
    """Wait for nodes, for a client with nothing to propose, or one response time: most tokens per pass."""
    if waiting.nodes >= PATIENT_NODES or waiting.exhausted:
        return waiting.since
    return waiting.since + waiting.response_time


def lockstep(waiting: Waiting) -> float:
    """Wait for the client's tree however long it takes: the rounds of published systems, as a baseline."""
    return waiting.since if waiting.nodes or waiting.exhausted else math.inf


IdlePolicy = Callable[[Waiting], float]

IDLE_POLICIES: dict[str, IdlePolicy] = {"eager": eager, "patient": patient, "lockstep": lockstep}
