"""How evenly sessions lie on replicas, and how evenly they would by the power of two choices alone. Pure; chance is
seeded."""

from collections.abc import Sequence
from random import Random

from client.stats import per

_RUNS = 200
_SHARE = 0.95


def uneven(held: Sequence[Sequence[int]]) -> float:
    """By how much the mean number of sessions of a replica differs at most from that of all, as a part of it.

    held: the sessions of each replica in turn, as often as they were counted. 0 where there are none.
    """
    means: list[float] = [sum(each) / len(held) for each in zip(*held, strict=True)]
    mean = sum(means) / len(means)
    return per(max(abs(each - mean) for each in means), mean)


def fair_unevenness(clients: int, replicas: int, answers: int, seed: int) -> float:
    """What `uneven` gives at most in 95 of 100 runs in which clients, whose answers end in any order, take the less
    loaded of two replicas each time."""
    rng = Random(seed)
    return sorted(_fair_run(clients, replicas, answers, rng) for _ in range(_RUNS))[int(_SHARE * _RUNS)]


def _fair_run(clients: int, replicas: int, answers: int, rng: Random) -> float:
    held, chosen, samples = [0] * replicas, list[int](), list[tuple[int, ...]]()

    def choose() -> int:
        taken = min(rng.sample(range(replicas), 2), key=lambda each: held[each])
        held[taken] += 1
        return taken

    while len(chosen) < clients:
        chosen.append(choose())
    for _ in range(answers):
        client = rng.randrange(clients)
        held[chosen[client]] -= 1
        chosen[client] = choose()
        samples.append(tuple(held))
    return uneven(samples)
