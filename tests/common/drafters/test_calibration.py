"""The probabilities that drafters give drawn siblings: each is tried where those before it were rejected."""

import math

import pytest

from common.drafters.calibration import DRAWN, DRAWN_BLINDLY, blind_logps, drawn_logps, log_odds

SHARES = [0.6, 0.5, 0.9, 0.2]


def likely(logps):
    return [math.exp(logp) for logp in logps]


@pytest.mark.parametrize("siblings", [1, 2, 3, 4])
def test_that_one_of_a_group_is_accepted_is_that_not_all_are_rejected(siblings):
    alone = [DRAWN[min(index, 2)].logp(log_odds(share)) for index, share in enumerate(SHARES[:siblings])]
    all_rejected = math.prod(1 - probability for probability in likely(alone))
    assert sum(likely(drawn_logps(SHARES[:siblings]))) == pytest.approx(1 - all_rejected)
    blindly = [DRAWN_BLINDLY[min(index, 2)] for index in range(siblings)]
    assert sum(likely(blind_logps(siblings))) == pytest.approx(
        1 - math.prod(1 - probability for probability in blindly)
    )


def test_what_is_drawn_behind_a_sibling_changes_nothing_before_it():
    assert drawn_logps(SHARES)[:2] == drawn_logps(SHARES[:2])
    assert blind_logps(4)[:2] == blind_logps(2)


def test_a_sibling_behind_a_likelier_one_is_less_likely_to_be_tried():
    assert drawn_logps([0.9, 0.5])[1] < drawn_logps([0.2, 0.5])[1]


def test_a_share_of_everything_or_hardly_anything_is_no_infinite_log_probability():
    assert all(-30 < logp < 0 for logp in drawn_logps([1.0, 1e-9, 1.0, 1.0]))
