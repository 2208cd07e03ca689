"""The controller of the tree's bounds: it measures what drafting costs, and the bounds follow in limited steps."""

import random
from collections import deque
from dataclasses import dataclass, field
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.drafting.controller import Controller, FixedTree, LevelCost, Uplink
from common.drafters.best_first import Expansion

STEP = 1.5
LEVEL = 0.005
PASS = 0.03


def fitted(levels, fixed, per_node, noise=0.0, seed=0):
    rng, cost = random.Random(seed), LevelCost()
    for _ in range(levels):
        nodes = rng.randint(1, 16)
        cost.observe(nodes, (fixed + per_node * nodes) * (1 + noise * rng.uniform(-1, 1)))
    return cost


# What a level costs.


@pytest.mark.parametrize(("fixed", "per_node"), [(0.005, 0.0), (0.005, 0.0003), (0.0, 0.002), (0.02, 0.001)])
def test_fixed_costs_and_those_of_each_node_are_told_apart(fixed, per_node):
    exact = fitted(30, fixed, per_node)
    assert (exact.fixed, exact.per_node) == (pytest.approx(fixed, abs=1e-9), pytest.approx(per_node, abs=1e-9))
    level = fixed + 8 * per_node
    for seed in range(5):
        noisy = fitted(400, fixed, per_node, noise=0.1, seed=seed)
        assert noisy.fixed == pytest.approx(fixed, abs=0.1 * level)
        assert noisy.per_node == pytest.approx(per_node, abs=0.01 * level)


def test_levels_that_are_all_alike_say_nothing_of_a_node():
    cost = LevelCost()
    for _ in range(50):
        cost.observe(8, 0.01)
    assert (cost.fixed, cost.per_node) == (pytest.approx(0.01), 0.0)


def test_before_the_first_level_nothing_costs_anything():
    assert (LevelCost().fixed, LevelCost().per_node) == (0.0, 0.0)


def test_what_levels_cost_now_counts_and_not_what_they_cost_long_ago():
    cost = fitted(100, 0.05, 0.0)
    for nodes in range(400):
        cost.observe(1 + nodes % 16, 0.002 + 0.001 * (1 + nodes % 16))
    assert (cost.fixed, cost.per_node) == (pytest.approx(0.002, rel=0.05), pytest.approx(0.001, rel=0.05))


@given(st.lists(st.tuples(st.integers(0, 64), st.floats(1e-6, 10)), min_size=1, max_size=60))
def test_whatever_was_measured_neither_cost_is_negative_and_both_together_explain_the_mean(levels):
    cost, weight, nodes, seconds = LevelCost(), 0.0, 0.0, 0.0
    for of_level, took in levels:
        cost.observe(of_level, took)
        weight, nodes, seconds = 0.98 * weight + 1, 0.98 * nodes + of_level, 0.98 * seconds + took
    assert cost.fixed >= 0
    assert cost.per_node >= 0
    assert cost.fixed * weight + cost.per_node * nodes == pytest.approx(seconds, rel=1e-6)


# The bounds.


def bounds(expansion):
    return expansion.breadth, expansion.nodes, expansion.least_probability


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("level"), st.integers(0, 64), st.floats(0, 5)),
        st.tuples(st.just("commit"), st.integers(1, 40), st.floats(0, 5)),
    ),
    min_size=20,
    max_size=120,
)


@given(EVENTS)
def test_bounds_move_by_bounded_steps_and_stay_within_reason(events):
    controller, now, sent = Controller(), 0.0, 0
    for kind, count, seconds in events:
        now += seconds
        before = bounds(controller.expansion)
        if kind == "level":
            controller.drafted(count, range(sent + 1, sent + count + 1), seconds, is_one_draw=False)
            sent += count
            controller.sent(sent, now)
        else:
            controller.committed(count, range(sent - count, sent), sent - count, now)
            assert bounds(controller.expansion) == before
        for old, new in zip(before, bounds(controller.expansion), strict=True):
            rounding = 0.5 if isinstance(new, int) else 1e-12
            assert old / STEP - rounding <= new <= old * STEP + rounding
        assert 2 <= controller.expansion.breadth <= 16
        assert 32 <= controller.expansion.nodes <= 320
        assert 0.001 <= controller.expansion.least_probability <= 0.1


def test_a_fixed_tree_is_steered_by_nothing():
    tree = FixedTree(Expansion(breadth=3))
    for index in range(100):
        tree.drafted(20, range(index, index + 1), 9.0, is_one_draw=False)
        tree.sent(index, float(index))
        tree.committed(1, [index], index, float(index))
    assert tree.expansion == Expansion(breadth=3)


@dataclass
class Journey:
    """Levels one after another, passes every 30 ms, and between them a link on which nodes may queue.

    A level has as many nodes as are likely enough; `capacity` is in nodes per second.
    """

    fixed: float = LEVEL
    per_node: float = 0.0
    capacity: float = float("inf")
    delay: float = 0.02
    tokens: int = 2
    controller: Controller = field(default_factory=Controller)
    now: float = 0.0
    last_id: int = 0
    free_at: float = 0.0
    queue: float = 0.0  # seconds, that the newest node waits
    arrivals: deque = field(default_factory=deque)
    commits: deque = field(default_factory=deque)
    rng: random.Random = field(default_factory=lambda: random.Random(1))

    def run(self, seconds: float) -> float:
        """The number of nodes sent per second."""
        until, first, begun = self.now + seconds, self.last_id, self.now
        next_pass = self.now + PASS
        while self.now < until:
            expansion = self.controller.expansion
            worthy = round(0.2 / expansion.least_probability * self.rng.uniform(0.5, 1.0))
            nodes = max(1, min(expansion.breadth, worthy))
            took = self.fixed + self.per_node * nodes
            self.now += took
            self.controller.drafted(nodes, range(self.last_id + 1, self.last_id + nodes + 1), took, is_one_draw=False)
            self.last_id += nodes
            self.controller.sent(self.last_id, self.now)
            self.free_at = max(self.free_at, self.now) + nodes / self.capacity
            self.queue = self.free_at - self.now
            self.arrivals.append((self.free_at + self.delay, self.last_id))
            while next_pass <= self.now:
                seen = 0
                while self.arrivals and self.arrivals[0][0] <= next_pass:
                    seen = self.arrivals.popleft()[1]
                self.commits.append((next_pass + self.delay, seen))
                next_pass += PASS
            while self.commits and self.commits[0][0] <= self.now:
                at, seen = self.commits.popleft()
                self.controller.committed(self.tokens, (), seen, at)
        return (self.last_id - first) / (self.now - begun)


def test_a_node_that_costs_much_is_grown_less_often():
    cheap, dear = Journey(per_node=0.00005), Journey(per_node=0.005)
    for journey in (cheap, dear):
        journey.run(30)
    assert dear.controller.expansion.breadth < cheap.controller.expansion.breadth
    assert dear.controller.expansion.least_probability > cheap.controller.expansion.least_probability
    assert dear.controller.expansion.nodes < cheap.controller.expansion.nodes


def test_what_comes_slowly_is_worth_more_nodes():
    """They save more time where the target takes longer for a token."""
    slow, fast = Journey(per_node=0.0005, tokens=1), Journey(per_node=0.0005, tokens=12)
    for journey in (slow, fast):
        journey.run(30)
    assert slow.controller.expansion.least_probability < fast.controller.expansion.least_probability


def test_a_longer_path_gets_a_tree_that_lasts_until_its_answers_come():
    near, far = Journey(per_node=0.001, delay=0.02), Journey(per_node=0.001, delay=0.2)
    for journey in (near, far):
        journey.run(30)
    assert far.controller.expansion.nodes > 2 * near.controller.expansion.nodes


def test_what_left_before_a_person_thought_says_nothing_of_the_path():
    asked, fresh = Controller(), Controller()
    asked.sent(1, 0.0)
    for controller in (asked, fresh):
        controller.begin_turn()
        controller.committed(2, (), 1, 600.0)
        for level in range(80):  # ten steps, after which no bound is on its way any more
            controller.drafted(1 + level % 8, range(0), LEVEL, is_one_draw=False)
    assert bounds(asked.expansion) == bounds(fresh.expansion)


def test_before_a_speed_is_known_every_node_is_worth_its_place():
    controller, begun = Controller(), Controller()
    for level in range(8):
        controller.drafted(1 + level, range(0), 0.005 + 0.01 * level, is_one_draw=False)
        begun.drafted(1 + level, range(0), 0.005 + 0.01 * level, is_one_draw=False)
        begun.committed(2, (), 0, 0.0)  # all at once, from which no speed follows
    for each in (controller, begun):
        assert each.expansion.least_probability == pytest.approx(0.005 / STEP)


def test_a_queue_on_the_way_up_shrinks_what_is_sent_until_it_fits_and_is_forgotten_when_it_is_gone():
    journey, free = Journey(), Journey()
    at_first = journey.run(10)
    usual = journey.controller.expansion
    journey.capacity = 0.4 * at_first
    journey.run(30)
    seconds = [(journey.run(1), journey.queue, journey.controller.expansion.least_probability) for _ in range(60)]
    rates, queues, least = zip(*seconds, strict=True)
    assert mean(rates) < journey.capacity
    assert max(queues) < 1.0, "the queue stands"
    assert mean(least) > 2 * usual.least_probability
    journey.capacity = float("inf")
    journey.run(30)
    assert journey.run(20) == pytest.approx(at_first, rel=0.1)
    free.run(140)
    assert bounds(journey.controller.expansion) == pytest.approx(bounds(free.controller.expansion))


def test_a_longer_path_is_not_taken_for_a_queue_for_ever():
    """For example in another mobile cell: the round trip grows by more than jitter, and nothing queues."""
    moved, always = Journey(), Journey(delay=0.12)
    moved.run(10)
    moved.delay = 0.12
    for journey in (moved, always):
        journey.run(120)
    assert moved.controller.expansion.least_probability == pytest.approx(always.controller.expansion.least_probability)


@pytest.mark.parametrize("per_node", [0.0, 0.0002, 0.01])
@pytest.mark.parametrize("delay", [0.0, 0.02, 0.4])
@pytest.mark.parametrize("tokens", [1, 5])
def test_where_nothing_changes_the_tree_comes_to_rest(per_node, delay, tokens):
    journey = Journey(per_node=per_node, delay=delay, tokens=tokens)
    journey.run(60)
    settled = bounds(journey.controller.expansion)
    for _ in range(20):
        journey.run(1)
        assert bounds(journey.controller.expansion) == pytest.approx(settled, rel=0.3)


def test_constant_measurements_leave_the_tree_exactly_where_it_is():
    controller, seen = Controller(), []
    for level in range(4000):
        controller.drafted(6 + level % 4, range(0), 0.004 + 0.0005 * (6 + level % 4), is_one_draw=False)
        controller.sent(8 * level, level * 0.006)
        if level % 5 == 0:
            controller.committed(2, (), 8 * (level - 3), level * 0.006)
        seen.append(bounds(controller.expansion))
    for late in seen[-500:]:
        assert late == pytest.approx(seen[-1], rel=1e-6)


# The uplink.


def test_a_round_trip_is_that_of_the_newest_grow_that_a_commit_knows():
    uplink = Uplink()
    uplink.sent(3, 1.0)
    uplink.sent(5, 1.5)
    uplink.sent(9, 1.9)
    uplink.heard(7, 2.0)
    assert uplink.round_trip == pytest.approx(0.5)
    uplink.heard(7, 3.0)
    assert uplink.round_trip == pytest.approx(0.5), "a commit that knows nothing new says nothing"


def test_one_late_commit_costs_nothing():
    uplink = Uplink()
    price = uplink.price
    for index in range(50):
        late = 2.0 if index % 10 == 9 else 0.0
        uplink.sent(index, index * 3.0)
        uplink.heard(index, index * 3.0 + 0.05 + late)
    assert uplink.price <= price


def test_what_a_person_thinks_is_no_time_of_the_answer():
    thinking, talking = Journey(per_node=0.0005), Journey(per_node=0.0005)
    for journey, pause in ((thinking, 600.0), (talking, 0.0)):
        for _ in range(10):
            journey.run(2)
            journey.now += pause
            journey.free_at += pause
            journey.arrivals.clear()
            journey.commits.clear()
            journey.controller.begin_turn()
    slow, fast = bounds(thinking.controller.expansion), bounds(talking.controller.expansion)
    assert slow == pytest.approx(fast, rel=0.1)


def test_draws_of_siblings_say_nothing_of_levels_that_go_ahead():
    controller = Controller()
    for id_ in range(1, 200):
        controller.drafted(1, range(id_, id_ + 1), LEVEL, is_one_draw=True)
        controller.committed(1, [id_], id_, id_ * PASS)
        assert controller.expansion.ahead, "nothing is known of them yet"
