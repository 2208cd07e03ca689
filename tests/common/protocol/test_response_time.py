import pytest

from common.protocol.response_time import ResponseTime


def test_it_settles_on_a_steady_response_time():
    measured = ResponseTime()
    for i in range(200):
        measured.committed(i + 1, float(i))
        measured.acknowledged(i + 1, i + 0.07)
    assert measured.allowance() == pytest.approx(0.07, rel=0.01)


def test_it_allows_for_jitter():
    steady, jittery = ResponseTime(), ResponseTime()
    for i in range(200):
        for measured, spread in ((steady, 0.0), (jittery, 0.04)):
            measured.committed(i + 1, float(i))
            measured.acknowledged(i + 1, i + 0.07 + (spread if i % 2 else -spread))
    assert jittery.allowance() > steady.allowance() + 0.04


def test_one_word_answers_every_commit_it_covers_and_the_newest_gives_the_sample():
    measured = ResponseTime()
    measured.committed(1, 0.0)
    measured.committed(2, 5.0)
    measured.acknowledged(2, 5.1)
    measured.acknowledged(2, 99.0)
    assert measured.allowance() == pytest.approx(0.1 + 2 * 0.05)


def test_one_late_response_is_not_waited_for_again():
    response_time = ResponseTime()
    response_time.committed(1, 0.0)
    response_time.acknowledged(1, 100.0)
    assert response_time.allowance() <= 2.0


def test_a_restart_forgets_what_is_unanswered():
    measured = ResponseTime()
    untouched = measured.allowance()
    measured.committed(1, 0.0)
    measured.restart()
    measured.acknowledged(1, 50.0)
    assert measured.allowance() == untouched


def test_it_is_unknown_until_a_commit_was_answered():
    measured = ResponseTime()
    measured.committed(1, 0.0)
    assert measured.is_unknown
    measured.acknowledged(1, 0.1)
    assert not measured.is_unknown
    measured.restart()
    assert not measured.is_unknown, "what was measured stays"
