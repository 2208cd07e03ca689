"""Which replicas are started, restarted and drained: under every order of deaths, updates and changes of size."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.supervisor.plan import (
    MOST_RESTARTS,
    MOST_SILENCES,
    STABLE_S,
    Drain,
    Kill,
    Plan,
    Start,
    State,
    back_off_s,
)

LONG_S = 100.0
"""Longer than any wait before a restart."""


class World:
    """What the plan is carried out in: processes that start, serve, drain and die, on a clock that is set by hand."""

    def __init__(self, wanted: int):
        self.plan = Plan(wanted)
        self.now = 0.0
        self.processes: dict[int, str] = {}

    def step(self) -> list[Start | Drain | Kill]:
        before = dict(self.processes)
        self.plan, commands = self.plan.step(self.now)
        for command in commands:
            if isinstance(command, Start):
                assert command.number not in self.processes
                assert not self.plan.is_ending
                self.processes[command.number] = "starting"
            elif isinstance(command, Kill):
                assert self.processes[command.number] == "serving"
                self.processes[command.number] = "killed"
            else:
                assert self.processes[command.number] in ("starting", "serving")
                self.processes[command.number] = "draining"
        drained = [each.number for each in commands if isinstance(each, Drain)]
        for number in drained:
            if not self.plan.is_ending and number < self.plan.wanted:  # an update
                assert len(drained) == 1
                assert set(before.values()) == {"serving"}
                assert len(before) == self.plan.wanted
        return list(commands)

    def serve(self, number: int) -> None:
        if self.processes.get(number) == "starting":
            self.processes[number] = "serving"
            self.plan = self.plan.served(number, self.now)

    def ask(self, number: int, *, answered: bool) -> None:
        if number in self.processes:
            self.plan = self.plan.asked(number, self.now, answered=answered)

    def die(self, number: int) -> None:
        if self.processes.pop(number, None):
            self.plan = self.plan.ended(number, self.now)

    def go_well(self) -> None:
        """Everything that starts serves, and everything that drains ends."""
        for number, doing in list(self.processes.items()):
            if doing == "starting":
                self.serve(number)
            elif doing in ("draining", "killed"):
                self.die(number)

    def settle(self) -> None:
        for _ in range(200):
            self.step()
            self.go_well()
            self.now += LONG_S
            if not self.step() and set(self.processes.values()) <= {"serving"}:
                return
        raise AssertionError(f"it does not settle: {self.plan}")


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("serve"), st.integers(0, 4)),
        st.tuples(st.just("die"), st.integers(0, 4)),
        st.tuples(st.sampled_from(["silent", "answers"]), st.integers(0, 4)),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 0.5, 2.0, STABLE_S, LONG_S])),
        st.tuples(st.just("resize"), st.integers(1, 5)),
        st.tuples(st.just("update"), st.just(0)),
    ),
    max_size=40,
)


def play(world: World, events: list[tuple[str, float]]) -> None:
    for kind, value in events:
        match kind:
            case "serve":
                world.serve(int(value))
            case "die":
                world.die(int(value))
            case "silent" | "answers":
                world.ask(int(value), answered=kind == "answers")
            case "wait":
                world.now += value
            case "resize":
                world.plan = world.plan.resized(int(value))
            case "update":
                world.plan = world.plan.updated()
        world.step()


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 4), EVENTS)
def test_whatever_has_happened_a_fleet_that_is_well_becomes_whole(wanted: int, events: list[tuple[str, float]]) -> None:
    world = World(wanted)
    play(world, events)
    world.plan = world.plan.updated()  # those that have failed get another chance
    world.settle()
    assert world.plan.numbers(State.SERVING) == tuple(range(world.plan.wanted))
    assert not world.plan.is_updating


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), EVENTS, EVENTS)
def test_whatever_happens_a_fleet_that_ends_starts_nothing_and_ends(
    wanted: int, events: list[tuple[str, float]], later: list[tuple[str, float]]
) -> None:
    world = World(wanted)
    play(world, events)
    world.plan = world.plan.ending()
    world.step()
    play(world, later)
    assert set(world.processes.values()) <= {"draining", "killed"}
    world.go_well()
    world.step()
    assert world.plan.is_over


def test_a_replica_that_does_not_stay_up_is_restarted_ever_later_and_then_no_more() -> None:
    world = World(1)
    waits = []
    world.step()
    for _ in range(MOST_RESTARTS):
        world.serve(0)
        world.die(0)
        died = world.now
        while not world.step():
            world.now += 0.25
        waits.append(world.now - died)
    assert waits == [back_off_s(deaths) for deaths in range(1, MOST_RESTARTS + 1)] == [1, 2, 4, 8, 16]
    world.die(0)
    world.now += LONG_S
    assert world.step() == []
    assert world.plan.is_lost
    world.plan = world.plan.updated()
    assert world.step() == [Start(0)]


def test_a_replica_that_had_stayed_up_is_restarted_without_end() -> None:
    world = World(1)
    for _ in range(3 * MOST_RESTARTS):
        world.settle()
        world.now += STABLE_S
        world.die(0)
        assert world.plan.replicas[0].deaths == 1


def test_one_that_is_silent_too_often_in_a_row_is_killed_and_counts_as_dead() -> None:
    world = World(2)
    world.settle()
    for _ in range(MOST_SILENCES - 1):
        world.ask(0, answered=False)
    world.now += STABLE_S
    world.ask(0, answered=True)
    for _ in range(MOST_SILENCES):
        assert world.step() == []
        world.ask(0, answered=False)
    assert world.step() == [Kill(0)]
    assert (world.plan.numbers(State.HUNG), world.step()) == ((0,), []), "killed once"
    world.die(0)
    assert world.plan.replicas[0].deaths == 1
    world.now += back_off_s(1)
    assert world.step() == [Start(0)]
    world.serve(0)
    world.ask(0, answered=False)
    assert world.step() == [], "a new one begins anew"


def test_one_that_hangs_soon_after_each_start_is_restarted_ever_later_and_then_no_more() -> None:
    world = World(1)
    world.step()
    for _ in range(MOST_RESTARTS + 1):
        world.serve(0)
        world.now += LONG_S  # until it is found out
        for _ in range(MOST_SILENCES):
            world.ask(0, answered=False)
        assert world.step() == [Kill(0)]
        world.die(0)
        world.now += LONG_S
        world.step()
    assert world.plan.is_lost


def test_one_that_is_being_killed_is_not_drained_too() -> None:
    world = World(1)
    world.settle()
    for _ in range(MOST_SILENCES):
        world.ask(0, answered=False)
    world.step()
    world.plan = world.plan.ending()
    assert world.step() == []
    world.die(0)
    assert world.plan.is_over


def test_misuse_is_not_tried_again() -> None:
    world = World(2)
    world.step()
    world.plan = world.plan.ended(0, 0.0, is_misuse=True)
    world.now = LONG_S
    assert world.step() == []
    assert world.plan.numbers(State.FAILED) == (0,)
    assert not world.plan.is_lost


def test_an_update_goes_on_only_once_the_new_replica_serves() -> None:
    world = World(3)
    world.settle()
    world.plan = world.plan.updated()
    assert world.step() == [Drain(0)]
    world.die(0)
    assert world.step() == [Start(0)]
    world.die(0)  # the new one does not come up
    world.now += LONG_S
    assert world.step() == [Start(0)]
    assert world.processes[1] == world.processes[2] == "serving"
    world.serve(0)
    assert world.step() == [Drain(1)]


def test_an_update_ends_with_a_replica_that_fails_for_good_and_leaves_the_others_as_they_are() -> None:
    world = World(3)
    world.settle()
    world.plan = world.plan.updated()
    assert world.step() == [Drain(0)]
    world.die(0)
    assert world.step() == [Start(0)]
    world.plan = world.plan.ended(0, world.now, is_misuse=True)
    assert (world.step(), world.plan.is_updating, world.plan.is_steady) == ([], False, True)
    del world.processes[0]
    world.plan = world.plan.updated()
    assert world.step() == [Start(0)]
    world.settle()
    assert [each.round for each in world.plan.replicas.values()] == [2, 2, 2]


@pytest.mark.parametrize(("wanted", "commands"), [(3, [Drain(4), Drain(3)]), (6, [Start(5)])])
def test_the_last_replicas_come_and_go_with_the_size(wanted: int, commands: list[Start | Drain | Kill]) -> None:
    world = World(5)
    world.settle()
    world.plan = world.plan.resized(wanted)
    assert world.step() == commands


@pytest.mark.parametrize(("failed", "last"), [(0, 2), (1, 2), (2, 1)])
def test_one_that_failed_is_left_out_while_others_come_and_go(failed: int, last: int) -> None:
    world = World(3)
    world.settle()
    del world.processes[failed]
    world.plan = world.plan.ended(failed, world.now, is_misuse=True).resized(1)
    assert world.step() == [Drain(last)]
    assert not world.plan.is_steady
    world.go_well()
    assert world.plan.is_steady
    world.plan = world.plan.resized(3)
    assert not world.plan.is_steady
    assert world.step() == [Start(last), Start(3)]
    world.go_well()
    assert (world.plan.is_steady, world.plan.numbers(State.FAILED)) == (True, (failed,))
    world.plan = world.plan.updated()
    assert world.step() == [Start(failed)]


def test_a_fleet_that_ends_waits_for_none_that_failed() -> None:
    world = World(2)
    world.settle()
    world.plan = world.plan.ended(1, world.now, is_misuse=True).ending()
    world.step()
    world.die(0)
    assert world.plan.is_over
