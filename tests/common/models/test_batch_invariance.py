"""Which row multiples are found: the one that is needed, and none where no multiple helps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode

from common.models.batch_invariance import MULTIPLES, is_row_wise, row_multiple
from common.models.batch_invariant_attention import BatchInvariantAttention
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.models.segment import Segment
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


@pytest.fixture
def grouped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each call of the grouped kernel, which transformers takes for experts where it may choose."""
    rows: list[int] = []
    kernel = torch.nn.functional.grouped_mm

    def counted(entering: torch.Tensor, *others: Any, **named: Any) -> torch.Tensor:
        rows.append(len(entering))
        return kernel(entering, *others, **named)

    monkeypatch.setattr(torch.nn.functional, "grouped_mm", counted)
    return rows


@pytest.mark.parametrize("family", ["qwen3-moe", "gpt-oss"])
@pytest.mark.parametrize("is_batch_invariant", [True, False], ids=["batch-invariant", "without a multiple"])
@torch.inference_mode()
def test_experts_run_as_they_were_measured(
    tmp_path: Path, grouped: list[int], family: str, is_batch_invariant: bool
) -> None:
    """One after another, as the probes compute them; all in one call where no multiple is found."""
    directory = make_family_checkpoint(tmp_path / family, FAMILIES[family])
    model = load_causal_lm(directory, dtype=torch.bfloat16)
    model(torch.tensor([[1, 2, 3]]))
    assert grouped
    grouped.clear()
    if not is_batch_invariant:
        model.model.norm = _SharedScale()
    multiple = row_multiple(model)
    assert (multiple is not None) == is_batch_invariant
    packed = PackedModel(model, 8, backend=BatchInvariantAttention(), row_multiple=multiple or 1)
    packed.forward([Segment([1, 2, 3], range(3), range(-1, 2))])
    assert (not grouped) == is_batch_invariant


def test_an_activation_of_experts_gets_any_number_of_rows(tmp_path: Path) -> None:
    """Here it is right in pairs of rows alone, which every pass has with a multiple of 4."""

    class InPairs(nn.Module):
        def forward(self, entering: torch.Tensor) -> torch.Tensor:
            return entering + torch.arange(len(entering))[:, None].ge(len(entering) // 2 * 2).to(entering)

    model = load_causal_lm(make_family_checkpoint(tmp_path / "moe", FAMILIES["qwen3-moe"]), dtype=torch.bfloat16)
    for layer in model.model.layers:
        layer.mlp.experts.act_fn = InPairs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("common.models.batch_invariance._passes_agree", lambda *_: True)
        assert row_multiple(model) is None


class _BlocksOfFour(TorchFunctionMode):
    """A processor whose products are right in whole blocks of four rows alone. They are summed in float64, whose
    rounding no float16 shows, because this machine's own float16 may need larger blocks."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if func not in (linear, torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__) or args[0].dim() > 3:
            return func(*args, **named)
        wide = [each.double() if isinstance(each, torch.Tensor) else each for each in args]
        wide_named = {name: each.double() if isinstance(each, torch.Tensor) else each for name, each in named.items()}
        products = func(*wide, **wide_named).to(args[0])
        rows = products.shape[-2]
        return products + torch.arange(rows)[:, None].ge(rows // 4 * 4).to(products)


@pytest.mark.parametrize("family", ["llama", "qwen3-moe", "gpt-oss", "granite-moe"])
def test_experts_have_whole_blocks_of_rows_whatever_a_router_gives_them(tmp_path: Path, family: str) -> None:
    directory = make_family_checkpoint(tmp_path / family, FAMILIES[family])
    model = load_causal_lm(directory, dtype=torch.float16)
    with _BlocksOfFour():
        assert row_multiple(model) == 4


def test_a_quantised_layer_that_looks_for_outliers_in_all_rows_has_no_multiple(checkpoint: Callable[..., Path]) -> None:
    """LLM.int8 computes a column in half precision where any row of the call is large in it."""
    model = load_causal_lm(checkpoint("llama", layers=1, hidden=192), dtype=torch.bfloat16, quantise="int8")
    assert row_multiple(model) is None
