"""Whether levels go several tokens ahead: the choice between two kinds of levels, whose times and tokens are stated."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.drafting.guess_controller import GuessController

ONE_S = 0.002


@dataclass
class Drafting:
    """Levels whose nodes are all committed, some levels later: so many of a level that goes ahead."""

    tokens: int
    ahead_s: float
    going: GuessController = field(default_factory=GuessController)
    last_id: int = 0
    waiting: list[int] = field(default_factory=list)

    def levels(self, count: int, lag: int = 3) -> list[bool]:
        """How so many levels were drafted; what they brought is committed `lag` tokens later."""
        chosen = []
        for _ in range(count):
            chosen.append(self.going.chosen)
            added = range(self.last_id + 1, self.last_id + 1 + (self.tokens if self.going.chosen else 1))
            self.last_id = added.stop - 1
            self.going.drafted(added, self.ahead_s if chosen[-1] else ONE_S)
            self.waiting += added
            self.going.committed(self.waiting[:-lag])
            self.waiting = self.waiting[-lag:]
        return chosen


@given(st.integers(1, 8), st.floats(0.5, 12.0))
def test_most_levels_are_those_that_bring_more_tokens_a_second(tokens, times_as_long):
    drafting = Drafting(tokens, times_as_long * ONE_S)
    drafting.levels(100)
    later = drafting.levels(300)
    if tokens > 1.2 * times_as_long:
        assert sum(later) > 0.9 * len(later)
    elif tokens < 0.8 * times_as_long:
        assert sum(later) < 0.1 * len(later)
    assert 0 < sum(later) < len(later), "both are tried now and then"


@pytest.mark.parametrize(("before", "after"), [((5, 2.0), (1, 2.0)), ((5, 2.0), (5, 9.0)), ((1, 2.0), (5, 2.0))])
def test_the_choice_follows_a_change_of_text_or_machine(before, after):
    (tokens, times), (new_tokens, new_times) = before, after
    drafting = Drafting(tokens, times * ONE_S)
    drafting.levels(200)
    was = drafting.going.chosen
    drafting.tokens, drafting.ahead_s = new_tokens, new_times * ONE_S
    drafting.levels(1500)
    assert was == (tokens > times)
    assert sum(drafting.levels(100)) > 50 if new_tokens > new_times else sum(drafting.levels(100)) < 50


def test_what_was_refused_counts_for_nothing():
    """Of ten nodes that every level adds ahead, one is committed."""
    going, last_id, ahead = GuessController(), 0, 0
    for _ in range(300):
        ahead += going.chosen
        added = range(last_id + 1, last_id + 11)
        last_id = added.stop - 1
        going.drafted(added, 2 * ONE_S if going.chosen else ONE_S)
        going.committed([added.start])
    assert ahead < 60


def test_tokens_of_one_level_that_come_with_several_commits_are_of_one_level():
    drafting = Drafting(4, 2 * ONE_S)
    going = drafting.going
    for level in range(120):
        ids = range(level * 4, level * 4 + 4)
        going.drafted(ids, 2 * ONE_S if going.chosen else ONE_S)
        for id_ in ids if going.chosen else ids[:1]:
            going.committed([id_])
    assert going.chosen


def test_ids_that_no_level_added_are_ignored():
    going = GuessController()
    going.committed([3, 4])
    going.drafted(range(5, 8), 0.01)
    going.committed([900])
    assert going.chosen
