"""An hour of a fleet under arrivals by chance: scaling follows how long answers wait, not whether one does just now."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from server.supervisor.scaling import Bounds, Load, Scaling
from server.supervisor.supervisor import LOAD_INTERVAL_S

HOUR_S = 3600.0
TICK_S = 0.5
SETTLES_S = 20.0  # for so long a replica starts or drains, and scaling is not asked
COMES_BACK_S = 2.0
BOUNDS = Bounds(1, 4, slots=16)


@dataclass(eq=False)
class Replica:
    """Its passes begin the first prompts that wait, and the others wait on."""

    next_pass_s: float
    waiting: list[float] = field(default_factory=list)  # when each came
    ends: list[float] = field(default_factory=list)  # of answers that run

    @property
    def in_use(self) -> int:
        return len(self.waiting) + len(self.ends)


@dataclass(frozen=True)
class Traffic:
    """`arrivals`: answers a second at a time; `begun`: prompts that one pass of `pass_s` begins."""

    arrivals: Callable[[float], float]
    answer_s: float
    pass_s: float
    begun: int = 16


class Hour:
    """`counts`: the replicas that serve at each reading of the load."""

    def __init__(self, traffic: Traffic, replicas: int, seed: int):
        self._traffic, self._random = traffic, Random(seed)
        self._replicas = [self._replica(0.0) for _ in range(replicas)]
        self._back: list[float] = []  # when refused clients ask again
        self._refused = 0
        self.counts: list[int] = []
        self._run()

    def _replica(self, now: float) -> Replica:
        return Replica(now + self._random.random() * self._traffic.pass_s)

    def _run(self) -> None:
        scaling, asked_from_s = Scaling(), 0.0
        next_arrival_s = 0.0
        for step in range(int(HOUR_S / TICK_S)):
            now = step * TICK_S
            while next_arrival_s <= now:
                self._ask(now)
                next_arrival_s += self._random.expovariate(self._traffic.arrivals(now))
            back, self._back = self._back, [each for each in self._back if each > now]
            for _ in range(len(back) - len(self._back)):
                self._ask(now)
            for replica in self._replicas:
                self._work(replica, now)
            if now % LOAD_INTERVAL_S or now < asked_from_s:
                continue
            scaling, wanted = scaling.after(self._load(now), BOUNDS, len(self._replicas), now)
            self.counts.append(wanted)
            if wanted != len(self._replicas):
                asked_from_s = now + SETTLES_S
                self._replicas = self._replicas[:wanted]
                self._replicas += [self._replica(now) for _ in range(wanted - len(self._replicas))]

    def _ask(self, now: float) -> None:
        replica = min(self._random.choices(self._replicas, k=2), key=lambda each: each.in_use)
        if replica.in_use < BOUNDS.slots:
            replica.waiting.append(now)
        else:
            self._refused += 1
            self._back.append(now + COMES_BACK_S)

    def _work(self, replica: Replica, now: float) -> None:
        replica.ends = [end for end in replica.ends if end > now]
        if now >= replica.next_pass_s:
            replica.next_pass_s += self._traffic.pass_s
            begun, replica.waiting = replica.waiting[: self._traffic.begun], replica.waiting[self._traffic.begun :]
            replica.ends += [now + self._random.expovariate(1 / self._traffic.answer_s) for _ in begun]

    def _load(self, now: float) -> Load:
        waiting = [came for replica in self._replicas for came in replica.waiting]
        return Load(
            sum(len(replica.ends) for replica in self._replicas),
            len(waiting),
            longest_wait_s=max((now - came for came in waiting), default=0.0),
            refused=self._refused,
        )


LIGHT = Traffic(lambda now: 0.5, answer_s=6.0, pass_s=1.5)


@pytest.mark.parametrize("seed", range(3))
def test_under_a_light_load_the_fleet_stays_at_its_least(seed: int) -> None:
    assert set(Hour(LIGHT, 1, seed).counts) == {1}


@pytest.mark.parametrize("seed", range(3))
def test_under_a_light_load_replicas_that_are_left_of_a_busy_time_go(seed: int) -> None:
    counts = Hour(LIGHT, 4, seed).counts
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 1


OVERLOADS = {
    "no place is free": Traffic(lambda now: 2.0, answer_s=20.0, pass_s=0.5),
    "prompts queue up": Traffic(lambda now: 1.0, answer_s=6.0, pass_s=2.0, begun=1),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("traffic", OVERLOADS.values(), ids=OVERLOADS)
def test_under_more_than_one_replica_can_do_there_are_soon_more_and_they_stay(traffic: Traffic, seed: int) -> None:
    later = Hour(traffic, 1, seed).counts[int(300 / LOAD_INTERVAL_S) :]
    assert min(later) >= 2
    assert sum(each >= 3 for each in later) > 0.9 * len(later)


@pytest.mark.parametrize("seed", range(3))
def test_a_busy_quarter_of_an_hour_is_followed_and_left_behind(seed: int) -> None:
    counts = Hour(Traffic(lambda now: 2.0 if 600 <= now < 1500 else 0.2, 20.0, 0.5), 1, seed).counts
    assert set(counts[: int(600 / LOAD_INTERVAL_S)]) == {1}
    assert max(counts) >= 3
    assert counts[-1] == 1
