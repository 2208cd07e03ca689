"""The time after which a refused client is told to retry."""

import pytest

from server.sessions.retry_after import RetryAfterEstimator


def measured(seconds: float = 8.0, tokens: int = 100) -> RetryAfterEstimator:
    retry_after = RetryAfterEstimator()
    for _ in range(50):
        retry_after.answer_ended(seconds, tokens)
    return retry_after


def test_answers_are_measured_as_they_end_and_a_change_is_followed() -> None:
    retry_after = RetryAfterEstimator()
    assert retry_after.answer_tokens == 0
    retry_after.answer_ended(8.0, 100)
    assert retry_after.answer_tokens == 100
    for _ in range(50):
        retry_after.answer_ended(8.0, 20)
    assert retry_after.answer_tokens == pytest.approx(20, abs=1)


def test_an_answer_that_is_cut_off_raises_both_estimates_and_lowers_none() -> None:
    unknown = RetryAfterEstimator()
    unknown.answer_cut(0.5, 100)
    assert (unknown.answer_seconds, unknown.answer_tokens) == (RetryAfterEstimator().answer_seconds, 100)
    retry_after = measured(seconds=8.0, tokens=100)
    retry_after.answer_cut(1.0, 500)
    assert (retry_after.answer_seconds, retry_after.answer_tokens) == (8.0, pytest.approx(150))
    retry_after.answer_cut(80.0, 1)
    assert (retry_after.answer_seconds, retry_after.answer_tokens) == (pytest.approx(17.0), pytest.approx(150))


def test_an_answer_that_is_cut_off_is_the_least_that_the_first_whole_one_is_taken_for() -> None:
    retry_after = RetryAfterEstimator()
    retry_after.answer_cut(0.3, 1)
    retry_after.answer_cut(0.2, 5)
    retry_after.answer_ended(30.0, 1000)
    assert (retry_after.answer_seconds, retry_after.answer_tokens) == (30.0, 1000)
    retry_after = RetryAfterEstimator()
    retry_after.answer_cut(30.0, 1000)
    assert (retry_after.answer_seconds, retry_after.answer_tokens) == (30.0, 1000)
    retry_after.answer_ended(1.0, 5)
    assert (retry_after.answer_seconds, retry_after.answer_tokens) == (30.0, 1000)


def test_with_four_at_work_a_place_is_free_in_a_quarter_of_an_answer() -> None:
    assert measured().retry_after_s(4, now=100.0) == pytest.approx(2.0)


def test_who_comes_behind_others_waits_for_the_places_behind_theirs() -> None:
    retry_after = measured()
    assert [retry_after.retry_after_s(4, 100.0) for _ in range(3)] == pytest.approx([2.0, 4.0, 6.0])
    assert retry_after.retry_after_s(4, 103.0) == pytest.approx(5.0)


def test_nobody_waits_for_longer_than_an_answer_however_many_were_turned_away() -> None:
    retry_after = measured()
    assert max(retry_after.retry_after_s(4, 100.0) for _ in range(1000)) == pytest.approx(8.0)


def test_who_was_turned_away_long_ago_is_waited_for_no_more() -> None:
    retry_after = measured()
    for _ in range(10):
        retry_after.retry_after_s(4, 100.0)
    assert retry_after.retry_after_s(4, 1000.0) == pytest.approx(2.0)


def test_before_an_answer_has_ended_and_without_any_at_work_there_is_a_wait_too() -> None:
    assert 0 < RetryAfterEstimator().retry_after_s(0, 0.0) <= 2.0
    assert measured(seconds=0.001).retry_after_s(64, 0.0) > 0.05
