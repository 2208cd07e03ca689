"""A trimmed head gives the tokens that it kept the logits of the whole head, and no others."""

import torch
from torch import nn

from common.draft_models.vocabulary import most_frequent, trim_head


def test_the_most_frequent_tokens_are_kept_in_ascending_order():
    assert most_frequent(torch.tensor([3, 9, 0, 5, 5, 1]), 3).tolist() == [1, 3, 4]


def test_where_counts_are_equal_the_lower_token_is_kept():
    assert most_frequent(torch.tensor([0, 2, 2, 2, 2]), 2).tolist() == [1, 2]


def test_a_trimmed_head_gives_the_kept_tokens_logits():
    kept = torch.tensor([2, 3, 11])
    for bias in (False, True):
        head = nn.Linear(8, 12, bias=bias)
        hidden = torch.randn(5, 8)
        assert torch.allclose(trim_head(head, kept)(hidden), head(hidden)[:, kept])


def test_the_whole_head_is_not_copied():
    head = nn.Linear(8, 12)
    assert trim_head(head, None) is head
