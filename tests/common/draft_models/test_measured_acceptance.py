"""A hit rate and tokens per level are those with which the measured rounds come out."""

import json
import random

import pytest

from common.draft_models.measured_acceptance import (
    LEVELS,
    LONG_KEY,
    MeasuredAcceptance,
    read_measured_acceptance,
    write_measured_acceptance,
)
from common.models.errors import CheckpointError


def rounds(hit_rate: float, per_level: int, levels: int, count: int = 20_000) -> float:
    """The accept length of a draft that has each next token in its tree with this probability, and goes so many tokens
    ahead in a level."""
    chance, committed = random.Random(1), 0
    for _ in range(count):
        hits = 0
        while hits < levels * per_level and chance.random() < hit_rate:
            hits += 1
        committed += 1 + hits
    return committed / count


@pytest.mark.parametrize("hit_rate", [0.3, 0.6, 0.9])
def test_the_hit_rate_of_a_draft_is_found_from_its_rounds(hit_rate):
    worth = MeasuredAcceptance(rounds(hit_rate, 1, LEVELS), rounds(hit_rate, 1, 1))
    assert worth.hit_rate == pytest.approx(hit_rate, abs=0.01)
    assert worth.tokens_per_level == pytest.approx(1.0, abs=0.02)


def test_what_was_not_measured_in_one_level_counts_as_a_token_a_level():
    assert MeasuredAcceptance(4.0).tokens_per_level == 1.0
    assert MeasuredAcceptance(4.0).hit_rate == pytest.approx(MeasuredAcceptance(4.0, 1.5).hit_rate)


def test_a_draft_that_guesses_ahead_needs_fewer_levels_and_is_no_surer():
    measured = MeasuredAcceptance(rounds(0.8, 3, LEVELS), rounds(0.8, 3, 1))
    assert measured.tokens_per_level == pytest.approx((rounds(0.8, 3, 1) - 1) / 0.8, abs=0.05)
    assert measured.hit_rate == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize(("accept_length", "hit_rate"), [(0.2, 0.0), (1.0, 0.0), (7.0, 0.995), (60.0, 0.995)])
def test_measurements_beyond_what_rounds_can_tell_are_bounded(accept_length, hit_rate):
    assert MeasuredAcceptance(accept_length).hit_rate == pytest.approx(hit_rate, abs=1e-6)
    assert MeasuredAcceptance(accept_length, accept_length).tokens_per_level >= 1.0


def test_a_pass_of_a_long_round_ends_with_a_miss():
    assert MeasuredAcceptance(4.0, 2.0, (20.0, 5.0)).miss_rates == [0.05, 0.2]
    assert MeasuredAcceptance(4.0).miss_rates == [1 - MeasuredAcceptance(4.0).hit_rate]


@pytest.mark.parametrize(
    "worth", [MeasuredAcceptance(4.0), MeasuredAcceptance(4.0, 2.5), MeasuredAcceptance(4.0, 2.5, (20.12, 5.0))]
)
def test_what_is_noted_is_read(worth, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    write_measured_acceptance(tmp_path, {0: worth, 3: MeasuredAcceptance(5.0)})
    assert read_measured_acceptance(tmp_path) == {0: worth, 3: MeasuredAcceptance(5.0)}


def test_what_measured_nothing_is_not_noted(tmp_path):
    """Where all answers ended with their first token no pass committed anything."""
    (tmp_path / "config.json").write_text("{}")
    write_measured_acceptance(tmp_path, {0: MeasuredAcceptance(0.0, 0.0)})
    assert read_measured_acceptance(tmp_path) == {}
    write_measured_acceptance(tmp_path, {0: MeasuredAcceptance(4.0, 0.0), 3: MeasuredAcceptance(0.0, 2.0)})
    assert read_measured_acceptance(tmp_path) == {0: MeasuredAcceptance(4.0)}


@pytest.mark.parametrize("broken", [{"0": 3.0}, {"0": [0.0]}, {"0": ["far"]}, {"-1": [3.0]}, [3.0]])
def test_impossible_lengths_are_refused(broken, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({LONG_KEY: broken}))
    with pytest.raises(CheckpointError, match=f"broken '{LONG_KEY}'"):
        read_measured_acceptance(tmp_path)
