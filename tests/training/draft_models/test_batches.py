"""Batches depend on their number alone, hold every sample once an epoch, and waste little on padding."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch

from training.draft_models.batches import SampleBatches, to_batch
from training.draft_models.chat import Sample

TOKENS = 256


def make_samples(count: int = 300) -> list[Sample]:
    """The first token of a sample is its name."""
    lengths = np.random.default_rng(0).integers(3, 100, count)
    return [
        Sample(np.array([n, *([7] * (size - 1))], dtype=np.int32), np.arange(size) >= size // 2)
        for n, size in enumerate(lengths.tolist())
    ]


def test_batches_depend_on_their_number_alone() -> None:
    samples = make_samples()
    forwards, backwards = SampleBatches(samples, TOKENS, seed=4), SampleBatches(samples, TOKENS, seed=4)
    numbers = range(3 * forwards.batches_per_epoch)
    expected = [forwards.batch(number) for number in numbers]
    for number in reversed(numbers):
        found = backwards.batch(number)
        assert torch.equal(found.ids, expected[number].ids)
        assert torch.equal(found.learn, expected[number].learn)
    assert not torch.equal(SampleBatches(samples, TOKENS, seed=5).batch(0).ids, expected[0].ids)


def test_every_epoch_holds_every_sample_once_in_another_order() -> None:
    feed = SampleBatches(make_samples(), TOKENS, seed=1)
    orders = []
    number = 0
    for _ in range(3):
        seen: list[int] = []
        while len(seen) < 300:
            seen += feed.batch(number).ids[:, 0].tolist()
            number += 1
        assert sorted(seen) == list(range(300))
        orders.append(seen)
    assert orders[0] != orders[1] != orders[2]


def test_batches_of_short_samples_do_not_all_come_behind_those_of_long_ones() -> None:
    feed = SampleBatches(make_samples(), TOKENS, seed=1)
    widths = [feed.batch(number).ids.shape[1] for number in range(feed.batches_per_epoch)]
    no_longer = [later <= earlier for earlier, later in pairwise(widths)]
    assert 0.3 < sum(no_longer) / len(no_longer) < 0.8


def test_batches_stay_within_their_size_and_hold_little_padding() -> None:
    feed = SampleBatches(make_samples(), TOKENS, seed=1)
    batches = [feed.batch(number) for number in range(feed.batches_per_epoch)]
    assert all(batch.ids.numel() <= TOKENS for batch in batches)
    filled = sum(int(batch.lengths.sum()) for batch in batches)
    assert filled > 0.85 * sum(batch.ids.numel() for batch in batches)


def test_the_heaviest_batch_learns_the_most_places_of_an_epoch() -> None:
    feed = SampleBatches(make_samples(), TOKENS, seed=1)
    learned = [int(feed.batch(number).learn.sum()) for number in range(feed.batches_per_epoch)]
    assert int(feed.heaviest[0].learn.sum()) == max(learned) > min(learned)


def test_a_long_row_is_heavy_too_though_it_learns_little() -> None:
    """Attention may keep a score for each pair of its positions."""
    long = Sample(np.full(TOKENS, 7, dtype=np.int32), np.arange(TOKENS) >= TOKENS - 2)
    short = make_samples()
    assert [len(batch.ids[0]) == TOKENS for batch in SampleBatches([*short, long], TOKENS, seed=1).heaviest] == [
        False,
        True,
    ]
    assert len(SampleBatches([long, long], TOKENS, seed=1).heaviest) == 1


def test_a_row_longer_than_a_batch_comes_alone() -> None:
    feed = SampleBatches(make_samples(20), tokens=8, seed=1)
    assert {len(feed.batch(number).ids) for number in range(20)} <= {1, 2}


def test_a_place_learns_the_next_token_and_padding_learns_nothing() -> None:
    ids = np.array([4, 5, 6, 7, 8], dtype=np.int32)
    answers = np.array([False, False, True, True, True])
    short = Sample(np.array([4, 9], dtype=np.int32), np.array([True, True]))
    batch = to_batch([Sample(ids, answers), short])
    assert batch.ids.tolist() == [[4, 5, 6, 7, 8, 0, 0, 0], [4, 9, 0, 0, 0, 0, 0, 0]]
    assert batch.learn.nonzero().tolist() == [[0, 1], [0, 2], [0, 3], [1, 0]]
    assert batch.targets.tolist() == [6, 7, 8, 9]
    assert batch.lengths.tolist() == [5, 2]
