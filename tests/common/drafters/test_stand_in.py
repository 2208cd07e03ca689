"""common.drafters.stand_in: another draft answers what the server has not read, and nothing else."""

from dataclasses import replace

import pytest

from common.drafters.best_first import Expansion
from common.drafters.stand_in import StandInDrafter
from common.protocol.messages import State, StateRequest
from common.protocol.views import Proposal, TreeView

MAIN, STAND_IN = 1, 2


class Draft:
    """Proposes a fixed token of its own, and keeps what it receives."""

    expansion = Expansion()

    def __init__(self, kind: str, token: int):
        self.kind, self.token = kind, token
        self.state = StateRequest(kind)
        self.came: list[int] = []

    def draft(self, view, states=()):
        self.came += [state.start for state in states]
        self.positions = [state.start + index for state in states for index in range(state.count)]
        self.rescored = replace(view, prompt_length=self.token)
        return [Proposal(0, self.token, -1.0)]


class Scene:
    def __init__(self, fits: bool = True):
        self.main, self.other = Draft("block", MAIN), Draft("moa", STAND_IN)
        self.loaded = 0
        self.fits = fits
        self.drafter = StandInDrafter(self.main, self.load)

    def load(self) -> Draft | None:
        self.loaded += 1
        return self.other if self.fits else None

    def who(self, length: int, prompt: int, *states: State, alone: bool = False, provisional: int = 0) -> int:
        view = TreeView(tuple(range(length)), (), alone=alone, provisional=provisional, prompt_length=prompt)
        return self.drafter.draft(view, states)[0].token


def state(start: int, count: int) -> State:
    return State(0, start, count, "fused", "int8", (count, 4), b"")


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_it_asks_for_the_draft_state_of_the_main_one(scene):
    assert scene.drafter.kind == "block"
    assert scene.drafter.state == StateRequest("block")


def test_a_question_that_the_server_has_not_read_is_answered_by_the_other_from_its_first_token_on(scene):
    assert scene.who(10, 10, alone=True) == STAND_IN
    assert scene.who(14, 10, alone=True, provisional=4) == STAND_IN
    assert scene.loaded == 1


def test_with_a_link_the_other_is_not_even_loaded(scene):
    assert scene.who(10, 10) == MAIN
    assert scene.who(11, 10, state(0, 10)) == MAIN
    assert scene.who(11, 10, alone=True) == MAIN
    assert scene.loaded == 0


def test_an_answer_that_the_server_began_is_gone_on_with_by_the_main_one(scene):
    assert scene.who(12, 10, state(4, 6)) == MAIN
    assert scene.who(20, 10, alone=True, provisional=8) == MAIN


def test_a_further_question_is_answered_by_the_other_although_state_of_what_was_before_came(scene):
    assert scene.who(30, 10, state(0, 29)) == MAIN
    assert scene.who(50, 50, alone=True) == STAND_IN


def test_state_of_a_history_that_was_rewritten_is_no_proof_that_a_question_was_read(scene):
    assert scene.who(30, 10, state(0, 29)) == MAIN
    rewritten = TreeView((0, 1, 2, *[7] * 10), (), alone=True, prompt_length=13)
    assert scene.drafter.draft(rewritten)[0].token == STAND_IN


def test_the_main_one_gets_all_state_even_what_came_while_the_other_wrote(scene):
    scene.who(10, 10, state(0, 3), alone=True)
    scene.who(10, 10, state(3, 2), alone=True)
    assert scene.main.came == []
    scene.who(11, 10, state(5, 5))
    assert scene.main.came == [0, 3, 5]
    assert scene.other.came == []


def test_state_of_what_was_rewritten_meanwhile_reaches_nobody(scene):
    scene.who(30, 30, state(0, 4), state(20, 5), alone=True)
    scene.drafter.draft(TreeView((0, 1, 2, 7, 8), (), prompt_length=5))
    assert scene.main.positions == [0, 1, 2]


def test_where_the_other_does_not_fit_the_main_one_writes_and_it_is_not_tried_again():
    scene = Scene(fits=False)
    assert scene.who(10, 10, alone=True) == MAIN
    assert scene.who(11, 10, alone=True, provisional=1) == MAIN
    assert scene.loaded == 1


def test_whoever_drafts_rescores(scene):
    for alone, token in (True, STAND_IN), (False, MAIN):
        scene.who(10, 10, alone=alone)
        assert scene.drafter.rescored.prompt_length == token


def test_bounds_reach_whoever_drafts(scene):
    scene.drafter.expansion = Expansion(breadth=2)
    scene.who(10, 10)
    scene.drafter.expansion = Expansion(breadth=1)
    scene.who(10, 10, alone=True)
    assert (scene.main.expansion.breadth, scene.other.expansion.breadth) == (2, 1)
