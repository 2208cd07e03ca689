"""Which row multiples are found: the one that is needed, and none where no multiple helps."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from common.models.batch_invariance import MULTIPLES, is_row_wise, row_multiple
from common.models.checkpoint import load_causal_lm
from netem.experiments.family_checkpoints import FAMILIES, make_family_checkpoint


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


@pytest.mark.parametrize(("family", "found"), [("llama", 4), ("qwen3-moe", None), ("gpt-oss", None)])
def test_experts_get_any_number_of_rows_whatever_a_pass_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, found: int | None
) -> None:
    """Here products are right in whole blocks of four rows alone; nothing but the probes sees it."""

    def product(rows: torch.Tensor, *_: torch.Tensor | None) -> torch.Tensor:
        return rows + torch.arange(len(rows))[:, None].ge(len(rows) // 4 * 4).to(rows)

    monkeypatch.setattr("common.models.batch_invariance.linear", product)
    directory = make_family_checkpoint(tmp_path / family, FAMILIES[family])
    model = load_causal_lm(directory, dtype=torch.float16)
    assert row_multiple(model) == found


def test_a_quantised_layer_that_looks_for_outliers_in_all_rows_has_no_multiple(checkpoint: Callable[..., Path]) -> None:
    """LLM.int8 computes a column in half precision where any row of the call is large in it."""
    model = load_causal_lm(checkpoint("llama", layers=1, hidden=192), dtype=torch.bfloat16, quantise="int8")
    assert row_multiple(model) is None
