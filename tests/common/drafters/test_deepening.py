"""common.drafters.deepening: each depth drafts when it should, with all state that has arrived meanwhile."""

from dataclasses import replace

import pytest

from common.drafters.best_first import Expansion
from common.drafters.deepening import DeepeningDrafter
from common.protocol.messages import State, StateRequest
from common.protocol.views import Proposal, TreeView

REQUEST = StateRequest("moa", 3, later=True)


class Depth:
    """Proposes a fixed token of its own, and keeps what it receives."""

    kind = "moa"
    state = None
    expansion = Expansion()

    def __init__(self, token: int):
        self.token = token
        self.came: list[tuple[str, int, int]] = []

    def draft(self, view, states=()):
        self.came += [(state.kind, state.start, state.count) for state in states]
        self.rescored = replace(view, prompt_length=self.token)
        return [Proposal(0, self.token, -1.0)]


NEAR, FAR = 1, 2


def state(kind: str, start: int, count: int) -> State:
    return State(0, start, count, kind, "int8", (count, 4), b"")


def view(tokens, alone=False, provisional=0) -> TreeView:
    return TreeView(tuple(tokens), (), alone=alone, provisional=provisional)


@pytest.fixture
def depths():
    near, far = Depth(NEAR), Depth(FAR)
    return near, far, DeepeningDrafter(near, far, REQUEST)


def who(drafter, *arguments) -> int:
    return drafter.draft(*arguments)[0].token


def test_the_near_one_drafts_while_the_target_verifies_and_the_far_one_alone(depths):
    _, _, drafter = depths
    everything = [state("lsa", 0, 5), state("kv", 0, 5)]
    assert who(drafter, view(range(5)), everything) == NEAR
    assert who(drafter, view(range(5), alone=True)) == FAR
    assert who(drafter, view([*range(5), 9], alone=True, provisional=1)) == FAR
    assert who(drafter, view(range(5))) == NEAR


def test_without_most_of_its_state_the_far_one_is_not_asked(depths):
    _, _, drafter = depths
    assert who(drafter, view(range(10), alone=True), [state("lsa", 0, 10), state("kv", 0, 7)]) == NEAR
    assert who(drafter, view(range(10), alone=True), [state("kv", 7, 1)]) == FAR


def test_a_question_that_is_asked_without_a_link_is_read_by_the_far_one(depths):
    _, _, drafter = depths
    assert who(drafter, view(range(5)), [state("lsa", 0, 5), state("kv", 0, 5)]) == NEAR
    assert who(drafter, view(range(20), alone=True)) == FAR


@pytest.mark.parametrize(("length", "who_is_asked"), [(5, NEAR), (19, NEAR), (20, FAR)])
def test_a_long_question_is_read_by_the_far_one_although_little_k_v_of_a_short_history_came(
    depths, length, who_is_asked
):
    _, _, drafter = depths
    drafter.draft(view(range(5)), [state("lsa", 0, 5), state("kv", 0, 1)])
    assert who(drafter, view(range(length), alone=True)) == who_is_asked


def test_the_far_one_begins_an_answer_without_any_link(depths):
    _, _, drafter = depths
    assert who(drafter, view(range(20), alone=True)) == FAR


def test_what_a_drafter_wrote_itself_needs_no_state(depths):
    _, _, drafter = depths
    tokens = [*range(5), *[9] * 40]
    assert who(drafter, view(tokens, alone=True, provisional=40), [state("kv", 0, 5)]) == FAR


def test_each_gets_every_state_once_and_in_order(depths):
    near, far, drafter = depths
    drafter.draft(view(range(4)), [state("lsa", 0, 4)])
    drafter.draft(view(range(4)), [state("kv", 0, 4)])
    drafter.draft(view(range(4), alone=True))
    drafter.draft(view(range(5), alone=True), [state("lsa", 4, 1)])
    drafter.draft(view(range(5)))
    assert near.came == far.came == [("lsa", 0, 4), ("kv", 0, 4), ("lsa", 4, 1)]


def test_state_of_a_history_that_was_rewritten_is_forgotten(depths):
    _, far, drafter = depths
    drafter.draft(view(range(10)), [state("lsa", 0, 10), state("kv", 0, 6), state("kv", 6, 4)])
    rewritten = [0, 1, 2, 3, *[7] * 6]
    assert who(drafter, view(rewritten, alone=True), [state("lsa", 4, 6)]) == NEAR, "of ten positions four have K/V"
    assert who(drafter, view(rewritten, alone=True), [state("kv", 4, 6)]) == FAR
    assert far.came == [("lsa", 0, 4), ("kv", 0, 4), ("lsa", 4, 6), ("kv", 4, 6)]


@pytest.mark.parametrize(("deep", "who_is_asked"), [(4, FAR), (1, NEAR)])
def test_what_is_left_of_a_history_decides(depths, deep, who_is_asked):
    _, _, drafter = depths
    drafter.draft(view(range(10)), [state("lsa", 0, 10), state("kv", 0, deep)])
    assert who(drafter, view([0, 1, 2, 3, *[7] * 6], alone=True)) == who_is_asked


def test_bounds_reach_whoever_drafts(depths):
    near, far, drafter = depths
    drafter.expansion = Expansion(breadth=2)
    drafter.draft(view(range(3)))
    drafter.expansion = Expansion(breadth=1)
    drafter.draft(view(range(3), alone=True), [state("kv", 0, 3)])
    assert (near.expansion.breadth, far.expansion.breadth) == (2, 1)


def test_whoever_drafts_rescores(depths):
    _, _, drafter = depths
    for alone, token in (False, NEAR), (True, FAR):
        assert who(drafter, view(range(5), alone=alone)) == token
        assert drafter.rescored.prompt_length == token
