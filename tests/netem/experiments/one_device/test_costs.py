import pytest

from common.rounds import RoundsAnswer
from netem.experiments.one_device.costs import answer_seconds, level_seconds, plain_seconds


def test_an_answer_costs_its_passes_and_its_levels():
    answer = RoundsAnswer(tokens=(1,) * 9, passes=4, levels=12, packed=(9, 9, 400), state_bytes=0)
    assert answer_seconds(answer, depth=0, target_layers=12) == pytest.approx(2 * 0.030 + 0.040 + 12 * 0.005)


def test_layers_that_the_draft_runs_cost_their_share_of_a_pass():
    assert level_seconds(3, 12) - level_seconds(0, 12) == pytest.approx(3 / 12 * 0.030)


def test_plain_decoding_costs_a_pass_for_each_token():
    assert plain_seconds(10) == pytest.approx(0.3)
