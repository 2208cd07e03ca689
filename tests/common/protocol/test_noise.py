"""The noise is Philox's, equal for every integer type, and computed only for the tokens asked for."""

import numpy as np
import pytest
import torch

from common.protocol import noise
from tests.chances import DEVIATIONS, farthest, misfit

# Random123's known-answer vectors of Philox4x32-10: counter, key, words.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
SEED = 0xFEDC_BA98_7654_3210
TOKENS = np.array([0, 1, 2, 3, 7, 150_000, 2**31 - 1])
EULER = 0.5772156649015329


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_philox_gives_the_published_words(counter, key, words):
    assert noise.philox4x32(counter, key) == words


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
@pytest.mark.parametrize("array", [np.array, torch.tensor])
def test_arrays_that_wrap_around_give_the_published_words(array, counter, key, words):
    given = tuple(array([word, 0]) for word in counter)
    assert tuple(int(word[0]) for word in noise.philox4x32(given, key)) == words


def bits_of_integers(seed, purpose, position):
    return [noise.random_bits(seed, purpose, position, token) for token in TOKENS.tolist()]


@pytest.mark.parametrize("seed", [0, 1, 2**32, SEED, 2**64 - 1])
@pytest.mark.parametrize("purpose", [noise.GUMBEL, noise.UNIFORM])
@pytest.mark.parametrize("position", [0, 1, 131_072])
def test_integers_and_arrays_of_both_libraries_give_equal_bits(seed, purpose, position):
    bits = bits_of_integers(seed, purpose, position)
    assert all(0 <= each < 2**52 for each in bits)
    assert noise.random_bits(seed, purpose, position, TOKENS).tolist() == bits
    assert noise.random_bits(seed, purpose, position, torch.from_numpy(TOKENS)).tolist() == bits


@pytest.mark.parametrize("purpose", [noise.GUMBEL, noise.UNIFORM])
def test_the_counter_is_the_stated_one_so_that_ends_of_two_releases_have_the_same_noise(purpose):
    """Any other counter gives noise that is as good, and another answer on either side."""
    position, pair = 17, 4321
    words = noise.philox4x32((pair, position, purpose, 0), (SEED & 0xFFFFFFFF, SEED >> 32))
    stated = [words[0] << 32 | words[1], words[2] << 32 | words[3]]
    for token, of_64 in zip((2 * pair, 2 * pair + 1), stated, strict=True):
        bits = noise.random_bits(SEED, purpose, position, token)
        assert (bits >> 26, bits & 0x3FFFFFF) == (of_64 >> 38, (of_64 & 0xFFFFFFFF) >> 6)


def test_each_bit_is_as_often_set_as_not():
    bits = noise.random_bits(SEED, noise.GUMBEL, 5, np.arange(40_000))
    shares = (bits[:, None] >> np.arange(52) & 1).mean(axis=0)
    assert np.abs(shares - 0.5).max() < (DEVIATIONS + 1) * 0.5 / 40_000**0.5


def test_a_few_tokens_have_the_noise_that_they_have_among_all_and_cost_only_their_own_counters(monkeypatch):
    whole = noise.gumbel(SEED, 17, np.arange(50_000))
    philox, counters = noise.philox4x32, []

    def counting(counter, key):
        counters.append(np.size(counter[0]))
        return philox(counter, key)

    monkeypatch.setattr(noise, "philox4x32", counting)
    chosen = np.random.default_rng(0).choice(50_000, 64, replace=False)
    assert (noise.gumbel(SEED, 17, chosen) == whole[chosen]).all()
    assert sum(counters) == 64


def test_positions_broadcast_to_tokens():
    tokens = np.array([[5, 6, 7], [8, 9, 10]])
    together = noise.gumbel(SEED, [[3], [4]], tokens)
    assert together.shape == (2, 3)
    assert (together == [noise.gumbel(SEED, 3, tokens[0]), noise.gumbel(SEED, 4, tokens[1])]).all()


@pytest.mark.parametrize("bits", [0, 1, 2**51, 2**52 - 1])
def test_extreme_bits_give_numbers_inside_the_unit_interval_and_finite_noise(monkeypatch, bits):
    monkeypatch.setattr(noise, "random_bits", lambda seed, purpose, position, index: index * 0 + bits)
    assert 0.0 < noise.uniform(0, 0, 0) < 1.0
    assert noise.uniform(0, 0, 0) / noise.UNIT - 0.5 == bits
    assert np.isfinite(noise.gumbel(0, 0, TOKENS)).all()


def test_the_tail_of_the_noise_is_long(monkeypatch):
    monkeypatch.setattr(noise, "random_bits", lambda seed, purpose, position, index: index * 0 + 2**52 - 1)
    assert noise.gumbel(0, 0, TOKENS).min() > 36


def test_gumbel_noise_has_its_distribution():
    numbers = noise.gumbel(SEED, np.arange(40)[:, None], np.arange(5_000)[None].repeat(40, 0)).ravel()
    count, variance = len(numbers), np.pi**2 / 6
    assert abs(numbers.mean() - EULER) < DEVIATIONS * (variance / count) ** 0.5
    # A Gumbel number's kurtosis is 5.4.
    assert abs(numbers.var() - variance) < DEVIATIONS * variance * (4.4 / count) ** 0.5
    assert farthest(numbers, lambda x: np.exp(-np.exp(-x))) < 1


def test_uniform_numbers_have_their_distribution_over_seeds_positions_and_indices():
    numbers = [
        noise.uniform(seed, position, index) for seed in range(50) for position in range(20) for index in range(9)
    ]
    assert farthest(np.array(numbers), lambda x: x) < 1


def test_uniform_numbers_that_follow_one_another_know_nothing_of_each_other():
    pairs = np.zeros((4, 4))
    for seed in range(3_000):
        first, second = (int(4 * noise.uniform(seed, 9, index)) for index in (0, 1))
        pairs[first, second] += 1
    assert misfit(pairs, np.full(16, 1 / 16)) < 1


@pytest.mark.parametrize(
    "other",
    [(SEED + 1, 0, 17), (SEED ^ 1 << 40, 0, 17), (SEED, 1, 17), (SEED, 0, 18)],
    ids=["seed", "upper half of the seed", "purpose", "position"],
)
def test_noise_differs_wherever_seed_purpose_or_position_do(other):
    tokens = np.arange(2_000)
    bits, others = noise.random_bits(SEED, 0, 17, tokens), noise.random_bits(*other, tokens)
    assert not (bits == others).any()
    assert abs(np.corrcoef(bits, others)[0, 1]) < DEVIATIONS / 2_000**0.5
