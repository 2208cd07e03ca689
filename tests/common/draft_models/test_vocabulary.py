"""A trimmed head gives the tokens that it kept the logits of the whole head, and no others."""

import pytest
import torch
from torch import nn

from common.draft_models.vocabulary import most_frequent, trim_head
from common.models.checkpoint import load_causal_lm
from common.models.parts import head_of, projection_of
from netem.experiments.family_checkpoints import FAMILIES, HIDDEN, VOCABULARY, make_family_checkpoint


def test_the_most_frequent_tokens_are_kept_in_ascending_order():
    assert most_frequent(torch.tensor([3, 9, 0, 5, 5, 1]), 3, ()).tolist() == [1, 3, 4]


def test_end_tokens_are_kept_in_place_of_the_rarest():
    counts = torch.tensor([3, 9, 0, 5, 5, 0])
    assert most_frequent(counts, 3, (5,)).tolist() == [1, 3, 5]
    assert most_frequent(counts, 3, (5, 6)).tolist() == [1, 3, 5]  # a tokenizer may name one beyond the vocabulary
    assert counts.tolist() == [3, 9, 0, 5, 5, 0]


def test_where_counts_are_equal_the_lower_token_is_kept():
    assert most_frequent(torch.tensor([0, 2, 2, 2, 2]), 2, ()).tolist() == [1, 2]


def test_a_trimmed_head_gives_the_kept_tokens_logits():
    kept = torch.tensor([2, 3, 11])
    for bias in (False, True):
        head = nn.Linear(8, 12, bias=bias)
        hidden = torch.randn(5, 8)
        torch.testing.assert_close(trim_head(head, kept)(hidden), head(hidden)[:, kept])


def test_the_whole_head_is_not_copied():
    head = nn.Linear(8, 12)
    assert trim_head(head, None) is head


@pytest.mark.parametrize("family", ["cohere", "gemma2", "gpt-neox", "phi"])
def test_a_trimmed_head_scales_and_caps_as_its_family_does(tmp_path, family):
    model = load_causal_lm(make_family_checkpoint(tmp_path, FAMILIES[family]))
    head, hidden, kept = head_of(model), torch.randn(5, HIDDEN) * 9, torch.tensor([1, 7, 40, 299])
    whole = head(hidden)
    torch.testing.assert_close(trim_head(head, kept)(hidden), whole[:, kept])
    assert torch.equal(head(hidden), whole)
    assert len(projection_of(head).weight) == VOCABULARY
