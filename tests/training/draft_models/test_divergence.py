"""training.draft_models.divergence: parts of the places are computed one after another, and add up to all of them."""

import math

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from tests.training.draft_models.bounded import plain_divergences
from training.draft_models import divergence
from training.draft_models.divergence import divergences

TOKENS, WIDTH, LEARNED = 40, 12, 9


def given(*shape: int) -> tuple[nn.Linear, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    head = nn.Linear(WIDTH, TOKENS).requires_grad_(False)
    read = torch.randn(*shape, WIDTH, requires_grad=True)
    return head, read, 3 * torch.randn(LEARNED, TOKENS), torch.randint(0, LEARNED, shape[-1:])


def test_it_is_how_much_longer_a_text_of_the_targets_gets_by_the_drafts_distribution():
    """By hand, in nats, of a vocabulary of two; the draft's is even, then the target's own."""
    logits = torch.tensor([[math.log(3.0), 0.0], [0.0, math.log(4.0)]])
    read = torch.tensor([[[5.0, 5.0], [1.0, 1.0], [2.0, 2.0 + math.log(4.0)]]])
    found = divergences(nn.Identity(), read, logits, torch.tensor([0, 1, 1]))
    of_three_quarters = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    of_four_fifths = 0.8 * math.log(0.8 / 0.5) + 0.2 * math.log(0.2 / 0.5)
    torch.testing.assert_close(found, torch.tensor([[of_three_quarters, of_four_fifths, 0.0]]))


@pytest.mark.parametrize("positions", [1, 4, 23, 100])
@pytest.mark.parametrize("shape", [(23,), (2, 23)])
def test_each_position_has_its_divergence_and_gradient_however_many_are_computed_at_once(monkeypatch, positions, shape):
    monkeypatch.setattr(divergence, "_POSITIONS", positions)
    head, read, logits, learned = given(*shape)
    found, expected = (each(head, read, logits, learned) for each in (divergences, plain_divergences))
    torch.testing.assert_close(found, expected)
    weights = torch.rand(found.shape)
    of_found, of_expected = (torch.autograd.grad((each * weights).sum(), read)[0] for each in (found, expected))
    torch.testing.assert_close(of_found, of_expected)
    with torch.no_grad():
        torch.testing.assert_close(divergences(head, read, logits, learned), expected)


def test_no_logits_are_kept_for_the_gradient_and_never_more_than_a_part_is_computed(monkeypatch):
    monkeypatch.setattr(divergence, "_POSITIONS", 4)
    computed: list[int] = []
    head, read, logits, learned = given(2, 23)
    head.register_forward_hook(lambda _, __, out: computed.append(out.shape[-2]))
    kept: list[torch.Tensor] = []
    with saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        found = divergences(head, read, logits, learned)
    assert all(each.data_ptr() == logits.data_ptr() for each in kept if each.shape[-1] == TOKENS)
    found.sum().backward()
    assert max(computed) == 4
    assert sum(computed) == 2 * 23, "once, and once again for the gradient"
