import pytest
from hypothesis import given
from hypothesis import strategies as st

from netem.experiments.capacity.fleet import Habits, answered_at_once, between, fullest

HABITS = Habits(pause_s=30.0, answer_tokens=100)


def test_clients_are_answered_as_long_as_they_ask():
    # Answers of 10 s and pauses of 30 s: a quarter of the time.
    assert answered_at_once(80, lambda at_once: 10.0, HABITS) == pytest.approx(20)
    # A server of 10 tokens/s in all cannot keep up: each answer takes as long as all that are there.
    assert answered_at_once(80, lambda at_once: 10.0 / at_once, HABITS) == pytest.approx(77, abs=0.5)


@given(st.floats(0.5, 30), st.integers(1, 12), st.integers(0, 3))
def test_the_fullest_replica_has_at_least_its_share(answers, replicas, seed):
    most = fullest(answers, replicas, seed)
    assert most >= answers
    assert most <= answers * replicas + 1


def test_the_less_loaded_of_two_keeps_replicas_even():
    assert fullest(20, 1, seed=0) == 20
    assert fullest(20, 16, seed=0) <= 25


def test_nothing_is_said_of_what_was_not_measured():
    known = {4: 40.0, 8: 20.0}
    assert [between(known, at) for at in (1, 4, 6, 8)] == [40.0, 40.0, 30.0, 20.0]
    assert between(known, 8.1) is None
