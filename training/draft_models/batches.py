"""From samples to batches: a pure function from a batch's number to its rows, which makes resuming exact.

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
"""About so many batches share one pool, within which samples are sorted by length: enough that little is padding, few
enough that batches differ from epoch to epoch."""

COLUMN_STEP = 8
"""Rows are as long as a multiple of this, so that fewer shapes occur."""


@dataclass
class Feed:
    """Every sample once in each epoch, in an order that depends on seed and epoch. `tokens`: cells of one batch at
    most, padding included; a row that is longer comes alone."""

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
        """Of the first epoch; later ones differ by a few."""
        return len(self.plan(0))

    def plan(self, epoch: int) -> list[list[int]]:
        """Which samples form each batch of an epoch."""
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
    """The samples of `pool`, longest first, in groups whose rows times columns stay within `tokens`."""
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
