import pytest

from netem.experiments.capacity.rounds import best_round, tokens_of_round
from server.options import Pace
from tests.netem.experiments.capacity.recordings import PREDICTABLE, UNPREDICTABLE, answer, recording

PACE = Pace(per_pass=0.03, per_token=0.0001, per_level=0.002)


def test_a_round_commits_what_was_right_and_the_bonus_token():
    assert tokens_of_round(PREDICTABLE, 4) == 5
    assert tokens_of_round(UNPREDICTABLE, 4) == 1
    # Two hits, then a miss, which the bonus token mends.
    assert tokens_of_round(recording(answer(0, 0, None, 0, 0, 1)), 4) == 3


def test_nothing_is_drafted_that_is_not_worth_its_time():
    assert best_round(UNPREDICTABLE, PACE, 4).levels == 0
    few, many = (best_round(PREDICTABLE, PACE, sessions) for sessions in (4, 400))
    assert few.levels > many.levels == 0
    assert few.seconds == pytest.approx(0.03 + few.levels * 0.002)
    assert many.seconds == pytest.approx(0.04)
