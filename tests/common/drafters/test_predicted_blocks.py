"""Which block a node's children are proposed from, and what is remembered of blocks."""

import gc
import math
import weakref

import pytest
import torch

from common.drafters.calibration import NoiseTrust
from common.drafters.predicted_blocks import Block, BlockPosition, Blocks, shortlist
from common.drafters.ranking import ranking_for
from common.protocol.sampling import Sampling
from common.protocol.views import NodeView, TreeView

TOKENS = (7, 8, 9)


class Fixed:
    """Predicts three places, each by its own row."""

    length = 3
    newest_state = -1

    def logits(self, block, paths):
        return block.hidden[[len(path) for path in paths]]


def block(lead=()):
    return Block(len(TOKENS), lead, -1, torch.tensor([[2.0, 1.0], [0.0, 1.0], [3.0, 0.0]]), torch.tensor([4, 5]))


def holding(*held, network=None):
    blocks = Blocks(network or Fixed())
    for each in held:
        blocks.add(each)
    return blocks


def likeliest(sampling):
    return ranking_for(TreeView(TOKENS, (), "typical", sampling), 2, None, NoiseTrust())


def test_a_node_has_the_position_of_the_block_that_begins_nearest_above_it_as_far_as_it_reaches():
    first, below = block(), block(lead=(5,))
    paths = {0: (), 1: (4,), 2: (4, 4), 3: (4, 4, 4), 4: (5,), 5: (5, 4, 4), 6: (5, 4, 4, 4)}
    found = holding(first, below).positions(TOKENS, paths)
    of_below = {4: BlockPosition(below, ()), 5: BlockPosition(below, (4, 4))}
    assert found == {
        0: BlockPosition(first, ()),
        1: BlockPosition(first, (4,)),
        2: BlockPosition(first, (4, 4)),
        **of_below,
    }


def test_a_block_is_used_for_what_follows_what_it_was_made_for_whatever_is_committed_meanwhile():
    first, below = block(), block(lead=(5,))
    found = holding(first, below).positions((*TOKENS, 4), {0: (), 1: (5,), 2: (5, 5)})
    assert found == {0: BlockPosition(first, (4,)), 1: BlockPosition(first, (4, 5))}


def test_another_ranking_ranks_the_tokens_of_a_block_anew():
    blocks, positions = holding(held := block()), {0: BlockPosition(held, ())}
    for temperature in (1.0, 0.5):
        (offer,) = blocks.offers(TOKENS, positions, likeliest(Sampling(temperature))).values()
        assert [token for token, _ in offer.candidates] == [4, 5]
        assert offer.candidates[0][1] - offer.candidates[1][1] == pytest.approx(1 / temperature)
        blocks.forget_offers()


def test_a_block_that_no_node_uses_is_not_kept():
    blocks = holding(held := block())
    blocks.offers(TOKENS, {0: BlockPosition(held, ())}, likeliest(Sampling(1.0)))
    kept = weakref.ref(held)
    del held
    blocks.forget_unused({})
    gc.collect()
    assert kept() is None


def test_a_shortlist_has_what_is_likely_at_any_place_and_all_of_a_small_vocabulary():
    assert shortlist(torch.tensor([[1.0, -math.inf, 3.0]])).tolist() == [0, 1, 2]
    logits = torch.zeros(2, 200)
    logits[0, 100:164] = logits[1, 101:165] = 1.0
    assert shortlist(logits).tolist() == list(range(100, 165))


def test_a_new_block_is_worth_something_where_newer_state_came_or_none_begins():
    network, held = Fixed(), block()
    blocks, view = holding(held, network=network), TreeView(TOKENS, (NodeView(1, 0, 4, 3, math.log(0.2)),))
    at_its_anchor = {0: BlockPosition(held, ())}
    assert blocks.most_worth(view, at_its_anchor, [0]) is None
    assert blocks.most_worth(view, {**at_its_anchor, 1: BlockPosition(held, (4,))}, [0, 1]) == 1
    assert blocks.most_worth(view, at_its_anchor, [0, 1]) == 1
    network.newest_state = 2
    assert blocks.most_worth(view, at_its_anchor, [0]) == 0
    assert blocks.most_worth(view, {**at_its_anchor, 1: BlockPosition(held, (4,))}, [0, 1]) == 0
