"""training.demo.muon: torch's own optimiser where that iterates in bfloat16, and closer to orthogonal in float32."""

import pytest
import torch

from training.demo.muon import Muon, orthogonalised


@pytest.mark.parametrize("shape", [(48, 16), (16, 48), (32, 32)])
def test_in_bfloat16_it_is_torchs_own_bit_for_bit(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    ours = torch.nn.Parameter(torch.randn(shape))
    theirs = torch.nn.Parameter(ours.detach().clone())
    optimisers = (
        Muon([ours], lr=0.02, weight_decay=0.1, dtype=torch.bfloat16),
        torch.optim.Muon([theirs], lr=0.02, weight_decay=0.1),
    )
    for _ in range(3):
        ours.grad = torch.randn(shape)
        theirs.grad = ours.grad.clone()
        for optimiser in optimisers:
            optimiser.step()
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("shape", [(96, 32), (32, 96)])
def test_all_singular_values_come_near_one(shape: tuple[int, int]) -> None:
    torch.manual_seed(1)
    values = torch.linalg.svdvals(orthogonalised(torch.randn(shape), torch.float32))
    assert values.min() > 0.6
    assert values.max() < 1.3


def test_what_has_no_gradient_stays() -> None:
    matrix = torch.nn.Parameter(torch.ones(4, 4))
    Muon([matrix], lr=0.1, weight_decay=0.1, dtype=torch.float32).step()
    assert torch.equal(matrix, torch.ones(4, 4))
