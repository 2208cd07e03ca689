"""Groups samples into batches. A batch is a pure function of its number, so that a resumed run gets the same batches.

What may live here: shuffling, grouping by length, tensors of one batch. It may not know where samples come from, models
or losses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from training.draft_models.chat import Sample
from training.draft_models.recipe import Batch

POOL_BATCHES = 32
"""The size of a pool, within which samples are sorted by length: large enough for little padding, small enough that
batches differ between epochs."""

COLUMN_STEP = 8
"""The length of rows is a multiple of this, so that there are fewer shapes."""


@dataclass
class SampleBatches:
    """Every sample once in each epoch, in an order that depends on seed and epoch.

    tokens: the most tokens of a batch, padding included; a longer sample is a batch of its own.
    """

    samples: Sequence[Sample]
    tokens: int
    seed: int
    first_of_epoch: list[int] = field(default_factory=lambda: [0])
    plans: dict[int, list[list[int]]] = field(default_factory=dict)

    def batch(self, number: int) -> Batch:
        """The batch of that number, counted from 0 over all epochs."""
        epoch = next((e for e, first in enumerate(self.first_of_epoch) if first > number), 0) - 1
        while epoch < 0:
            newest = len(self.first_of_epoch) - 1
            self.first_of_epoch.append(self.first_of_epoch[-1] + len(self.plan(newest)))
            epoch = newest if number < self.first_of_epoch[-1] else -1
        chosen = self.plan(epoch)[number - self.first_of_epoch[epoch]]
        return to_batch([self.samples[index] for index in chosen])

    @property
    def batches_per_epoch(self) -> int:
        """Batches of the first epoch; later epochs differ by a few."""
        return len(self.plan(0))

    @property
    def heaviest(self) -> list[Batch]:
        """Of the first epoch the batch with the most learned positions, of which losses keep a row of logits each, and,
        unless it is the same, the one with the most pairs of positions in a row, of which attention may keep a score
        each. Later epochs have none much heavier."""
        learned = [sample.learned for sample in self.samples]
        lengths = [len(sample.ids) for sample in self.samples]

        def learned_positions(batch: list[int]) -> int:
            return sum(learned[index] for index in batch)

        def score_pairs(batch: list[int]) -> int:
            return len(batch) * columns(max(lengths[index] for index in batch)) ** 2

        chosen = [max(self.plan(0), key=weight) for weight in (learned_positions, score_pairs)]
        is_same = score_pairs(chosen[0]) == score_pairs(chosen[1])
        return [to_batch([self.samples[index] for index in batch]) for batch in (chosen[:1] if is_same else chosen)]

    def plan(self, epoch: int) -> list[list[int]]:
        """The indices of the samples of each batch of an epoch."""
        if epoch not in self.plans:
            self.plans = {epoch: self.make_plan(epoch)}
        return self.plans[epoch]

    def make_plan(self, epoch: int) -> list[list[int]]:
        random = np.random.default_rng((self.seed, epoch))
        lengths = np.array([len(sample.ids) for sample in self.samples])
        order = random.permutation(len(lengths))
        batches: list[list[int]] = []
        pools = np.cumsum(lengths[order]) // (POOL_BATCHES * self.tokens)
        for pool in np.split(order, np.flatnonzero(np.diff(pools)) + 1):
            batches += group(pool, lengths, self.tokens)
        return [batches[index] for index in random.permutation(len(batches))]


def group(pool: np.ndarray, lengths: np.ndarray, tokens: int) -> list[list[int]]:
    """The samples of `pool`, longest first, in groups of at most `tokens` with padding."""
    groups: list[list[int]] = []
    for index in sorted(pool.tolist(), key=lambda index: -int(lengths[index])):
        fits = groups and (len(groups[-1]) + 1) * columns(int(lengths[groups[-1][0]])) <= tokens
        if fits:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def columns(length: int) -> int:
    return -(-length // COLUMN_STEP) * COLUMN_STEP


def to_batch(samples: Sequence[Sample]) -> Batch:
    """One row for each sample, padded on the right."""
    width = columns(max(len(sample.ids) for sample in samples))
    ids = torch.zeros(len(samples), width, dtype=torch.int64)
    learn = torch.zeros(len(samples), width, dtype=torch.bool)
    for row, sample in enumerate(samples):
        ids[row, : len(sample.ids)] = torch.from_numpy(sample.ids)
        learn[row, : len(sample.ids) - 1] = torch.from_numpy(sample.answers[1:])
    return Batch(ids, learn, torch.tensor([len(sample.ids) for sample in samples]))
