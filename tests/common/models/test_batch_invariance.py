"""Which row multiples are found: the one that is needed, and none where no multiple helps."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from common.models.batch_invariance import MULTIPLES, is_row_wise, row_multiple
from common.models.checkpoint import load_causal_lm


@pytest.mark.parametrize("needed", MULTIPLES)
def test_a_kernel_that_needs_whole_blocks_is_found_out(needed: int) -> None:
    def compute(rows: torch.Tensor) -> torch.Tensor:
        whole = len(rows) // needed * needed
        return torch.cat([rows[:whole], rows[whole:] + 1])

    rows = torch.zeros(512, 3)
    assert [is_row_wise(compute, rows, multiple) for multiple in MULTIPLES] == [each >= needed for each in MULTIPLES]


def test_a_kernel_whose_rows_depend_on_their_place_is_found_out() -> None:
    assert not is_row_wise(lambda rows: rows + torch.arange(len(rows))[:, None], torch.zeros(512, 3), 64)


class _SharedScale(nn.Module):
    """Scales activations by the largest of all rows, as some quantised layers do."""

    def forward(self, entering: torch.Tensor) -> torch.Tensor:
        return entering / entering.abs().amax()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_a_model_whose_rows_share_a_scale_has_no_multiple(checkpoint: Callable[..., Path], dtype: torch.dtype) -> None:
    model = load_causal_lm(checkpoint("llama", layers=2), dtype=dtype)
    model.model.layers[1].mlp.act_fn = _SharedScale()
    assert row_multiple(model) is None
