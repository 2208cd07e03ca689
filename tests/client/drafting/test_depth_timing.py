"""client.drafting.depth on a fake clock: a level's time is measured over a few levels of growing depth."""

import pytest

from client.drafting.depth import level_seconds
from common.drafters.best_first import Expansion
from common.protocol.messages import StateRequest
from common.protocol.views import Proposal

VOCABULARY = 300


class Timed:
    """Two nodes a level, below the last node of the level before; each level takes as long as the test says."""

    kind = "timed"
    expansion = Expansion()

    def __init__(self, took: list[float], state: StateRequest | None = None):
        self.state = state
        self.now = 100.0
        self.views = []
        self._took = iter(took)

    def draft(self, view, states=()):
        self.views.append(view)
        self.now += next(self._took)
        parent = view.nodes[-1].id if view.nodes else 0
        return [Proposal(parent, token, -0.1) for token in (1, 2)]

    def clock(self) -> float:
        return self.now


class Silent(Timed):
    """Finds nothing worth proposing below the made-up prompt."""

    def draft(self, view, states=()):
        super().draft(view)
        return []


def test_a_level_takes_the_median_of_a_few_the_first_ones_warm_up():
    drafter = Timed([9.0, 5.0, 0.010, 0.014, 0.012, 0.300])
    assert level_seconds(drafter, VOCABULARY, drafter.clock) == pytest.approx(0.013)


def test_draft_state_makes_a_level_dearer():
    took = [0.010] * 6
    without, state = Timed(took), Timed(took, StateRequest("timed"))
    assert level_seconds(state, VOCABULARY, state.clock) == pytest.approx(
        1.25 * level_seconds(without, VOCABULARY, without.clock)
    )


def test_levels_are_drafted_one_below_the_other():
    drafter = Timed([0.010] * 6)
    level_seconds(drafter, VOCABULARY, drafter.clock)
    assert [len(view.nodes) for view in drafter.views] == [0, 2, 4, 6, 8, 10]
    assert [max((node.position for node in view.nodes), default=63) for view in drafter.views] == list(range(63, 69))


def test_only_drafting_is_timed():
    drafter = Timed([0.010] * 6)
    calls = []

    def clock():
        calls.append(len(drafter.views))
        return drafter.now

    level_seconds(drafter, VOCABULARY, clock)
    assert calls == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]


def test_a_drafter_that_proposes_nothing_is_timed_too():
    drafter = Silent([0.010] * 6)
    assert level_seconds(drafter, VOCABULARY, drafter.clock) == pytest.approx(0.010)


@pytest.mark.parametrize("vocabulary", [1, 7, 64, 50_000])
def test_the_prompt_stays_within_the_vocabulary(vocabulary):
    drafter = Silent([0.010] * 6)
    level_seconds(drafter, vocabulary, drafter.clock)
    assert {len(view.tokens) for view in drafter.views} == {64}
    assert all(token < vocabulary for view in drafter.views for token in view.tokens)
