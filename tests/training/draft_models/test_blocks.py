"""Blocks begin where a token is learned and end with the answer, each place beside the target's distribution of it."""

import math
from itertools import pairwise

import pytest
import torch

from training.draft_models.blocks import draw_blocks
from training.draft_models.recipe import Batch

COLUMNS = 14


def two_answers() -> Batch:
    """Each row has two answers, the second up to the last token, which has no next one."""
    learn = torch.zeros(3, COLUMNS, dtype=torch.bool)
    for row, (first, end, second) in enumerate([(2, 5, 8), (1, 2, 6), (0, 9, 12)]):
        learn[row, first:end] = True
        learn[row, second:-1] = True
    return Batch(torch.ones(3, COLUMNS, dtype=torch.long), learn, torch.full((3,), COLUMNS))


@pytest.mark.parametrize("length", [1, 3, 20])
def test_a_block_is_learned_up_to_the_end_of_its_answer(length):
    batch = two_answers()
    blocks = draw_blocks(batch, length, share=1.0)
    learned = [(row, column) for row, column in batch.learn.nonzero().tolist()]
    anchors = list(zip(blocks.rows.tolist(), blocks.columns.tolist(), strict=True))
    assert sorted(anchors) == learned
    expected = {}
    for block, (row, column) in enumerate(anchors):
        for offset in range(length):
            if (row, column + offset) not in learned:
                break
            expected[block, offset] = learned.index((row, column + offset))
    found = zip(blocks.block.tolist(), blocks.offset.tolist(), strict=True)
    assert dict(zip(found, blocks.learned.tolist(), strict=True)) == expected


@pytest.mark.parametrize(("share", "count"), [(0.0, 1), (0.01, 1), (0.5, 13), (1.0, 26)])
def test_there_are_as_many_blocks_as_the_share_says_and_at_least_one(share, count):
    batch = two_answers()
    assert int(batch.learn.sum()) == 26
    blocks = draw_blocks(batch, 3, share)
    anchors = set(zip(blocks.rows.tolist(), blocks.columns.tolist(), strict=True))
    assert len(anchors) == len(blocks.rows) == count


def test_later_places_count_less_and_the_first_in_full():
    blocks = draw_blocks(two_answers(), 4, share=1.0)
    by_offset = [blocks.weights[blocks.offset == offset] for offset in range(4)]
    assert all(bool((weights == weights[0]).all()) for weights in by_offset)
    shares = [float(weights[0]) for weights in by_offset]
    assert shares[0] == 1.0
    assert shares == sorted(shares, reverse=True)
    assert len({round(later / earlier, 5) for earlier, later in pairwise(shares)}) == 1


def test_of_a_place_seven_further_on_little_more_than_a_third_counts_as_published():
    learn = (torch.arange(10) < 9)[None]
    blocks = draw_blocks(Batch(torch.ones(1, 10, dtype=torch.long), learn, torch.tensor([10])), 9, share=1.0)
    assert float(blocks.weights[blocks.offset == 7][0]) == pytest.approx(math.exp(-1))
