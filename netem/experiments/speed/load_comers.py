"""Who comes to the server, when, and with which prompts: Poisson arrivals, and clients that ask again.

Pure and seeded. It may not know systems, links or clocks.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

Prompt = Sequence[int]


@dataclass(frozen=True, slots=True)
class Comer:
    """A client that comes at a moment, in seconds, and asks its prompts one after the other."""

    comes: float
    prompts: Sequence[Prompt]


def poisson_arrivals(rate: float, seconds: float, least: int, seed: int) -> list[float]:
    """Moments at `rate` per second for so many seconds, and longer where fewer than `least` came in them."""
    draw = random.Random(f"{seed}/{rate}")
    moments: list[float] = []
    while True:
        moment = (moments[-1] if moments else 0.0) + draw.expovariate(rate)
        if moment > seconds and len(moments) >= least:
            return moments
        moments.append(moment)


def arriving(moments: Sequence[float], prompts: Sequence[Prompt]) -> list[Comer]:
    """A client for every moment, with one prompt each; prompts go round."""
    return [Comer(moment, [prompts[number % len(prompts)]]) for number, moment in enumerate(moments)]


def returning(clients: int, each: int, stagger: float, prompts: Sequence[Prompt]) -> list[Comer]:
    """Clients that ask `each` prompts, the first of them spread evenly over `stagger` seconds; prompts go round."""
    return [
        Comer(stagger * number / clients, [prompts[(number * each + turn) % len(prompts)] for turn in range(each)])
        for number in range(clients)
    ]
