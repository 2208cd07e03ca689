"""How fast an answer comes and how often its drafts miss."""

import math

import pytest

from common.protocol.acceptance import AcceptanceEstimator


def answered(acceptance, commits, tokens, seconds, begins=0.0):
    acceptance.answer_began()
    for index in range(commits + 1):
        acceptance.committed(tokens, begins + index * seconds)


def test_before_the_second_commit_the_speed_is_infinite_and_one_token_in_six_is_missed():
    acceptance = AcceptanceEstimator()
    assert (acceptance.tokens_per_s, acceptance.miss_rate) == (math.inf, pytest.approx(1 / 6))
    acceptance.answer_began()
    acceptance.committed(3, 100.0)
    assert acceptance.tokens_per_s == math.inf


@pytest.mark.parametrize("commits", [1, 50])
def test_the_speed_is_that_of_a_steady_answer(commits):
    acceptance = AcceptanceEstimator()
    answered(acceptance, commits, tokens=3, seconds=0.05)
    assert acceptance.tokens_per_s == pytest.approx(60)


def test_what_is_believed_lies_halfway_from_what_was_so_to_certainty():
    acceptance = AcceptanceEstimator()
    for hits, believable in ((0, 0.5), (1, 0.75), (3, 0.875)):
        for _ in range(200):
            acceptance.nodes_judged(hits, missed=True)
        assert acceptance.max_acceptance == pytest.approx(believable)


def test_a_new_speed_takes_over():
    acceptance = AcceptanceEstimator()
    answered(acceptance, 40, tokens=3, seconds=0.05)
    answered(acceptance, 40, tokens=1, seconds=0.05, begins=10.0)
    assert acceptance.tokens_per_s == pytest.approx(20, rel=0.1)


def test_what_lies_between_two_answers_is_no_time_of_theirs():
    acceptance = AcceptanceEstimator()
    answered(acceptance, 10, tokens=2, seconds=0.1)
    answered(acceptance, 10, tokens=2, seconds=0.1, begins=3600.0)
    assert acceptance.tokens_per_s == pytest.approx(20)


@pytest.mark.parametrize(
    ("hits", "missed", "share"), [(3, True, 0.25), (1, True, 0.5), (0, True, 1.0), (5, False, 0.0)]
)
def test_misses_are_counted_against_the_tokens_that_were_hit(hits, missed, share):
    acceptance = AcceptanceEstimator()
    for _ in range(200):
        acceptance.nodes_judged(hits, missed)
    assert acceptance.miss_rate == pytest.approx(share, abs=1e-6)


def test_what_was_long_ago_is_forgotten():
    acceptance = AcceptanceEstimator()
    for _ in range(30):
        acceptance.nodes_judged(9, missed=True)
    for _ in range(30):
        acceptance.nodes_judged(1, missed=True)
    assert 0.4 < acceptance.miss_rate < 0.5
