"""What the supervisor of a fleet does next: which replicas to start, restart and drain. Pure.

Replicas are numbered from 0, and a restarted one keeps its number. It may not know processes, Ray or addresses; times
are seconds of any clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType

MOST_RESTARTS = 5
"""In a row, of a replica that does not stay up."""

STABLE_S = 30.0
"""A replica that has served for so long counts as one that stays up."""

MOST_SILENCES = 3
"""In a row, of a serving replica that is asked whether it is well: then it hangs, and is killed."""

_FIRST_BACK_OFF_S, _LONGEST_BACK_OFF_S = 1.0, 60.0


class State(Enum):
    BACKING_OFF = "backing off"
    STARTING = "starting"
    SERVING = "serving"
    HUNG = "hung"  # it did not answer, and is killed
    DRAINING = "draining"
    FAILED = "failed"  # it is not started again before the next update


@dataclass(frozen=True, slots=True)
class Replica:
    """`since_s`: when it came into its state, a hung one: when it began to serve. `deaths`: in a row. `round`: the
    updates that had been asked for when it was started, or when one ended without it. `silences`: questions in a row
    that it did not answer. `answered_s`: when it last did."""

    state: State
    since_s: float
    deaths: int = 0
    round: int = 0
    silences: int = 0
    answered_s: float = 0.0

    @property
    def is_up(self) -> bool:
        """Whether a process belongs to it that is not draining."""
        return self.state in (State.STARTING, State.SERVING)


@dataclass(frozen=True, slots=True)
class Start:
    number: int


@dataclass(frozen=True, slots=True)
class Drain:
    number: int


@dataclass(frozen=True, slots=True)
class Kill:
    number: int


Command = Start | Drain | Kill


def back_off_s(deaths: int) -> float:
    """The wait before the restart after so many deaths in a row."""
    return min(_FIRST_BACK_OFF_S * 2.0 ** (deaths - 1), _LONGEST_BACK_OFF_S) if deaths else 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """`wanted`: the replicas with a smaller number shall be there. One that has failed stays, whatever its number.
    `updates`: how many were asked for."""

    wanted: int
    replicas: Mapping[int, Replica] = field(default_factory=lambda: MappingProxyType({}))
    updates: int = 0
    is_ending: bool = False

    @property
    def is_over(self) -> bool:
        return self.is_ending and not self.replicas

    @property
    def is_settled(self) -> bool:
        """Whether as many replicas serve as are wanted, and none starts, drains or has failed."""
        return len(self.replicas) == self.wanted and self._all_serve

    @property
    def is_steady(self) -> bool:
        """Whether each of those that are wanted serves or has failed, so that none starts or drains."""
        failed, serving = self.numbers(State.FAILED), self.numbers(State.SERVING)
        return {*serving, *failed} == {*range(self.wanted), *failed} == self.replicas.keys()

    @property
    def is_updating(self) -> bool:
        return any(each.round < self.updates for each in self.replicas.values())

    @property
    def is_lost(self) -> bool:
        """Whether no replica is left that could come to serve."""
        return bool(self.replicas) and all(each.state is State.FAILED for each in self.replicas.values())

    def numbers(self, state: State) -> tuple[int, ...]:
        return tuple(sorted(number for number, each in self.replicas.items() if each.state is state))

    # What has happened.

    def served(self, number: int, now: float) -> "Plan":
        """A replica that was starting serves now; one that drains already goes on draining."""
        found = self.replicas[number]
        if found.state is not State.STARTING:
            return self
        return self._with(number, replace(found, state=State.SERVING, since_s=now))

    def asked(self, number: int, now: float, *, answered: bool) -> "Plan":
        """A serving replica was asked whether it is well, and answered or not."""
        found = self.replicas[number]
        if found.state is not State.SERVING:
            return self
        if answered:
            return self._with(number, replace(found, silences=0, answered_s=now))
        return self._with(number, replace(found, silences=found.silences + 1))

    def ended(self, number: int, now: float, *, is_misuse: bool = False) -> "Plan":
        """The process of a replica has ended, or its machine is gone. `is_misuse`: it could not begin, and a restart
        changes nothing."""
        found = self.replicas[number]
        if found.state is State.DRAINING:
            return self._without(number)
        well_until_s = {State.SERVING: now, State.HUNG: found.answered_s}.get(found.state, found.since_s)
        was_stable = well_until_s - found.since_s >= STABLE_S
        deaths = 1 if was_stable else found.deaths + 1
        state = State.FAILED if is_misuse or deaths > MOST_RESTARTS else State.BACKING_OFF
        plan = self._with(number, replace(found, state=state, since_s=now, deaths=deaths, silences=0))
        return plan._left_as_it_is() if state is State.FAILED else plan

    # What is asked for.

    def resized(self, working: int) -> "Plan":
        """So many replicas shall serve beside those that have failed; the last ones come and go."""
        failed = self.numbers(State.FAILED)
        free = [number for number in range(working + len(failed)) if number not in failed]
        return replace(self, wanted=free[working - 1] + 1)

    def updated(self) -> "Plan":
        """All replicas are to be replaced, one after another; those that have failed get another chance."""
        kept = {number: each for number, each in self.replicas.items() if each.state is not State.FAILED}
        return replace(self, updates=self.updates + 1, replicas=MappingProxyType(kept))

    def ending(self) -> "Plan":
        return replace(self, is_ending=True)

    # What follows.

    def step(self, now: float) -> tuple["Plan", tuple[Command, ...]]:
        """The plan once what is due has been done, and what that is."""
        plan, commands = self, list[Command]()
        for number in sorted(plan.replicas, reverse=True):
            if plan.is_ending or number >= plan.wanted:
                plan = plan._dismissed(number, now, commands)
        if plan.is_ending:
            return plan, tuple(commands)
        for number in plan.numbers(State.SERVING):
            if (found := plan.replicas[number]).silences >= MOST_SILENCES:
                plan = plan._with(number, replace(found, state=State.HUNG))
                commands.append(Kill(number))
        for number in range(plan.wanted):
            found = plan.replicas.get(number, Replica(State.BACKING_OFF, now))
            if found.state is State.BACKING_OFF and now - found.since_s >= back_off_s(found.deaths):
                plan = plan._with(number, Replica(State.STARTING, now, found.deaths, plan.updates))
                commands.append(Start(number))
        if plan.is_settled and plan.is_updating:
            outdated = min(number for number, each in plan.replicas.items() if each.round < plan.updates)
            plan = plan._dismissed(outdated, now, commands)
        return plan, tuple(commands)

    def _dismissed(self, number: int, now: float, commands: list[Command]) -> "Plan":
        found = self.replicas[number]
        if found.is_up:
            commands.append(Drain(number))
            return self._with(number, replace(found, state=State.DRAINING, since_s=now))
        if found.state is State.HUNG:  # it is being killed already
            return self._with(number, replace(found, state=State.DRAINING, since_s=now))
        is_left_out = found.state is State.FAILED and not self.is_ending  # forgotten, it would be started again
        return self if is_left_out or found.state is State.DRAINING else self._without(number)

    def _left_as_it_is(self) -> "Plan":
        """An update ends here: what one replica could not begin with might take the others down too."""
        kept = {number: replace(each, round=self.updates) for number, each in self.replicas.items()}
        return replace(self, replicas=MappingProxyType(kept))

    @property
    def _all_serve(self) -> bool:
        return all(each.state is State.SERVING for each in self.replicas.values())

    def _with(self, number: int, found: Replica) -> "Plan":
        return replace(self, replicas=MappingProxyType({**self.replicas, number: found}))

    def _without(self, number: int) -> "Plan":
        kept = {other: each for other, each in self.replicas.items() if other != number}
        return replace(self, replicas=MappingProxyType(kept))
