"""How evenly sessions lie, and how evenly a fair choice would put them."""

import pytest

from netem.experiments.service.fair_choice import fair_unevenness, uneven


def test_the_load_of_replicas_is_compared_with_the_mean_of_all() -> None:
    assert uneven([[8, 8, 8], [9, 8, 7], [7, 8, 9]]) == 0.0
    assert uneven([[12, 6, 6], [12, 6, 6]]) == pytest.approx(0.5)
    assert uneven([[0, 0, 0]]) == 0.0, "nobody has a session"


def test_a_fair_choice_is_the_more_even_the_longer_it_is_watched_and_never_quite() -> None:
    few, many = (fair_unevenness(24, 3, answers, 0) for answers in (24, 240))
    assert 0.0 < many < few / 2 < 0.1
    assert fair_unevenness(24, 3, 24, 0) == few, "the same chance"
