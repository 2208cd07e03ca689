"""The clients of a load with their times of arrival and prompts: Poisson arrivals, and clients with several prompts.

Pure and seeded. It may not know systems, links or clocks.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

Prompt = Sequence[int]


@dataclass(frozen=True, slots=True)
class LoadClient:
    """A client that arrives at that time and sends its prompts one after the other."""

    arrives_s: float
    prompts: Sequence[Prompt]


def poisson_arrivals(rate: float, seconds: float, least_arrivals: int, seed: int) -> list[float]:
    """Arrival times in seconds of a Poisson process with `rate` per second, for `seconds` and until there are
    `least_arrivals`. Other rates have the same gaps, as many times longer, so that rates differ in nothing else."""
    draw = random.Random(f"{seed}/arrivals")
    moments: list[float] = []
    while True:
        moment = (moments[-1] if moments else 0.0) + draw.expovariate(1.0) / rate
        if moment > seconds and len(moments) >= least_arrivals:
            return moments
        moments.append(moment)


def arriving(moments: Sequence[float], prompts: Sequence[Prompt]) -> list[LoadClient]:
    """A client for every arrival time with one prompt each, taken from `prompts` in a cycle."""
    return [LoadClient(moment, [prompts[number % len(prompts)]]) for number, moment in enumerate(moments)]


def returning(clients: int, each: int, stagger_s: float, prompts: Sequence[Prompt]) -> list[LoadClient]:
    """Clients with `each` prompts, taken from `prompts` in a cycle; they begin evenly spread over `stagger_s`."""
    return [
        LoadClient(
            stagger_s * number / clients, [prompts[(number * each + turn) % len(prompts)] for turn in range(each)]
        )
        for number in range(clients)
    ]
