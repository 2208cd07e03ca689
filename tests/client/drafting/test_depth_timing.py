"""client.drafting.depth on a fake clock: a level's time is the least of a few below made-up prompts."""

import math
from itertools import chain, repeat

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
        self._took = chain(took, repeat(took[-1]))

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


class Filling(Timed):
    """Its tree is full after two levels; then it says so at once."""

    def draft(self, view, states=()):
        if len(view.nodes) >= 4:
            self.now += 0.000_01
            return []
        return super().draft(view)


def test_a_level_takes_the_least_of_a_few_because_others_use_the_machine_too():
    drafter = Timed([9.0, 5.0, 0.010, 0.014, 0.012, 0.300])
    assert level_seconds(drafter, VOCABULARY, drafter.clock) == pytest.approx(0.010)


def test_the_first_level_of_a_prompt_does_not_count_for_it_reads_the_prompt():
    drafter = Timed([0.001, 0.020, 0.030, 0.040, 0.050])
    assert level_seconds(drafter, VOCABULARY, drafter.clock) == pytest.approx(0.020)


def test_what_proposes_nothing_computes_nothing_and_does_not_count():
    drafter, silent = Filling([0.010]), Silent([0.010])
    assert level_seconds(drafter, VOCABULARY, drafter.clock) == pytest.approx(0.010)
    assert level_seconds(silent, VOCABULARY, silent.clock) == math.inf


def test_draft_state_makes_a_level_dearer():
    without, state = Timed([0.010]), Timed([0.010], StateRequest("timed"))
    assert level_seconds(state, VOCABULARY, state.clock) == pytest.approx(
        1.25 * level_seconds(without, VOCABULARY, without.clock)
    )


def test_levels_are_drafted_one_below_the_other_below_several_prompts():
    drafter = Timed([0.010])
    level_seconds(drafter, VOCABULARY, drafter.clock)
    begun = [index for index, view in enumerate(drafter.views) if not view.nodes]
    for start, end in zip(begun, [*begun[1:], len(drafter.views)], strict=True):
        assert [len(view.nodes) for view in drafter.views[start:end]] == [2 * level for level in range(end - start)]
    assert len({drafter.views[start].tokens for start in begun}) == len(begun) > 1


def test_only_drafting_is_timed():
    drafter = Timed([0.010])
    calls = []

    def clock():
        calls.append(len(drafter.views))
        return drafter.now

    level_seconds(drafter, VOCABULARY, clock)
    assert all(after == before + 1 for before, after in zip(calls[::2], calls[1::2], strict=True))


@pytest.mark.parametrize("vocabulary", [1, 7, 64, 50_000])
def test_the_prompt_stays_within_the_vocabulary(vocabulary):
    drafter = Silent([0.010] * 6)
    level_seconds(drafter, vocabulary, drafter.clock)
    assert {len(view.tokens) for view in drafter.views} == {64}
    assert all(token < vocabulary for view in drafter.views for token in view.tokens)
