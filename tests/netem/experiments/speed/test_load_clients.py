import math

import numpy as np
import pytest

from netem.experiments.speed.load_clients import LoadClient, arriving, poisson_arrivals, returning
from tests.chances import farthest, misfit

RATE, SECONDS = 4.0, 1000.0


@pytest.fixture(scope="module")
def moments():
    return poisson_arrivals(RATE, SECONDS, least_arrivals=0, seed=0)


def gaps_misfit(moments, rate):
    gaps = np.diff(np.array([0.0, *moments]))
    return farthest(gaps, lambda seconds: 1 - np.exp(-rate * seconds))


def test_gaps_between_arrivals_are_exponential(moments):
    assert gaps_misfit(moments, RATE) < 1


def test_what_is_not_poisson_is_noticed(moments):
    even = [number / RATE for number in range(1, len(moments) + 1)]
    assert gaps_misfit(even, RATE) > 1
    assert gaps_misfit(moments, 1.2 * RATE) > 1


def test_arrivals_in_a_second_have_the_chances_of_poisson(moments):
    in_each = np.bincount(np.bincount(np.array(moments).astype(int), minlength=int(SECONDS)), minlength=20)
    chances = [math.exp(-RATE) * RATE**count / math.factorial(count) for count in range(len(in_each))]
    assert misfit(in_each, chances) < 1


def test_arrivals_rise_end_in_time_and_depend_on_the_seed(moments):
    assert moments == sorted(moments)
    assert 0 < moments[0] < moments[-1] <= SECONDS
    assert moments == poisson_arrivals(RATE, SECONDS, least_arrivals=0, seed=0)
    assert moments != poisson_arrivals(RATE, SECONDS, least_arrivals=0, seed=1)


def test_rates_differ_in_how_long_their_gaps_are_and_in_nothing_else(moments):
    twice = poisson_arrivals(2 * RATE, SECONDS / 2, least_arrivals=0, seed=0)
    assert twice == pytest.approx([moment / 2 for moment in moments])


def test_few_arrivals_go_on_until_there_are_enough():
    assert len(poisson_arrivals(0.5, 5.0, least_arrivals=16, seed=0)) == 16
    assert poisson_arrivals(0.5, 5.0, least_arrivals=16, seed=0)[-1] > 5.0


def test_arriving_clients_ask_one_prompt_and_prompts_go_round():
    assert arriving([0.5, 0.7, 2.0], [[1], [2]]) == [
        LoadClient(0.5, [[1]]),
        LoadClient(0.7, [[2]]),
        LoadClient(2.0, [[1]]),
    ]


def test_returning_clients_ask_in_turn_and_come_spread_out():
    assert returning(2, each=2, stagger_s=0.5, prompts=[[1], [2], [3]]) == [
        LoadClient(0.0, [[1], [2]]),
        LoadClient(0.25, [[3], [1]]),
    ]
