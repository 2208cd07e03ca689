"""The offsets that a GPU's kernel gets, given to a statement of what it computes, in plain torch."""

import math
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from common.models import attention_cuda
from common.models.attention_backend import SplitAttention, backend_for
from common.models.attention_cuda import OverViewsAtOnce, find_varlen
from common.models.attention_layout import lay_out
from common.models.attention_parts import over_views_one_by_one
from common.models.bucket_attention import BucketAttention
from tests.common.models.dense_attention import (
    CPU,
    HEADS,
    KV_HEADS,
    SCORINGS,
    Layer,
    dense,
    make_layer,
    plan_of,
    random_plan,
    sharing_segments,
)
from tests.common.models.varlen import Varlen
from tests.pretended_gpu import GPU, pretended_gpu


@pytest.fixture(params=["whole", "cut"])
def _views(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Views are shorter here than a piece is on a GPU."""
    if request.param == "cut":
        monkeypatch.setattr("common.models.view_launches._SHORTEST_PIECE", 16)


@pytest.mark.usefixtures("_views")
@pytest.mark.parametrize("name", SCORINGS)
@pytest.mark.parametrize("seed", range(3))
def test_a_launch_over_views_gives_what_each_row_sees(name: str, seed: int) -> None:
    plan, varlen = random_plan(seed), Varlen()
    layer = make_layer(plan.rows)
    backend = SplitAttention(OverViewsAtOnce(varlen), shortest_view=8)
    found = backend.attend(plan, layer.query, layer.keys, layer.values, SCORINGS[name])
    torch.testing.assert_close(found, dense(plan, layer, SCORINGS[name]), rtol=0, atol=1e-12)
    assert varlen.calls == (0 if SCORINGS[name].softcap else 1)


@pytest.mark.parametrize("dim", [264, 12], ids=["Gemma 4 has heads of 512", "no multiple"])
def test_heads_that_the_kernel_does_not_take_are_read_view_by_view(dim: int) -> None:
    plan, varlen = random_plan(0), Varlen()
    layer = make_layer(plan.rows)
    wide = [torch.randn(*each.shape[:2], dim, dtype=each.dtype) for each in (layer.query, layer.keys, layer.values)]
    found = SplitAttention(OverViewsAtOnce(varlen), shortest_view=8).attend(plan, *wide, SCORINGS["plain"])
    torch.testing.assert_close(found, dense(plan, Layer(*wide), SCORINGS["plain"]), rtol=0, atol=1e-12)
    assert varlen.calls == 0
    with pytest.raises(RuntimeError, match="multiple of 8"):
        BucketAttention(varlen).attend(plan, *wide, SCORINGS["plain"])


@pytest.mark.usefixtures("_views")
@pytest.mark.parametrize("name", SCORINGS)
def test_views_of_sessions_that_share_a_prefix_may_overlap(name: str) -> None:
    plan, varlen = plan_of(sharing_segments()), Varlen()
    layer = make_layer(plan.rows)
    found = SplitAttention(OverViewsAtOnce(varlen), 8).attend(
        plan, layer.query, layer.keys, layer.values, SCORINGS[name]
    )
    torch.testing.assert_close(found, dense(plan, layer, SCORINGS[name]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", SCORINGS)
def test_a_row_may_have_its_pieces_in_several_launches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where many rows and many ranges would take too much memory at once."""
    monkeypatch.setattr("common.models.view_launches._MOST_RESULTS", 1)
    plan, varlen = random_plan(1), Varlen()
    layer = make_layer(plan.rows)
    found = SplitAttention(OverViewsAtOnce(varlen), shortest_view=8).attend(
        plan, layer.query, layer.keys, layer.values, SCORINGS[name]
    )
    torch.testing.assert_close(found, dense(plan, layer, SCORINGS[name]), rtol=0, atol=1e-12)
    assert varlen.calls > 1 or SCORINGS[name].softcap


def test_layers_of_one_pass_may_have_other_numbers_of_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Gemma 4's: how views are cut is kept of the first one."""
    monkeypatch.setattr("common.models.view_launches._SHORTEST_PIECE", 1)
    plan, backend = random_plan(0), SplitAttention(OverViewsAtOnce(Varlen()), shortest_view=8)
    layer, scoring = make_layer(plan.rows), SCORINGS["plain"]
    expected = dense(plan, layer, scoring)
    torch.testing.assert_close(
        backend.attend(plan, layer.query, layer.keys, layer.values, scoring), expected, rtol=0, atol=1e-12
    )
    keys, values = (held.repeat_interleave(HEADS // KV_HEADS, dim=0) for held in (layer.keys, layer.values))
    torch.testing.assert_close(backend.attend(plan, layer.query, keys, values, scoring), expected, rtol=0, atol=1e-12)


def test_offsets_are_made_once_for_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, made = random_plan(0), []
    right = attention_cuda.launches_over
    monkeypatch.setattr(attention_cuda, "launches_over", lambda *given: made.append(given) or right(*given))
    layer, backend = make_layer(plan.rows), SplitAttention(OverViewsAtOnce(Varlen()), shortest_view=8)
    for _ in range(3):
        backend.attend(plan, layer.query, layer.keys, layer.values, SCORINGS["plain"])
    views = plan.once(lay_out, None, None, 8).views
    assert made == [(views, KV_HEADS, HEADS // KV_HEADS)]


def test_there_is_no_kernel_for_a_cpu() -> None:
    assert find_varlen(CPU, torch.bfloat16) is None


@pytest.mark.parametrize(
    ("dtype", "capability", "why"),
    [
        (torch.float32, (9, 0), "needs float16 or bfloat16"),
        (torch.bfloat16, (7, 5), "compute capability 8.0"),
        (torch.bfloat16, (9, 0), "this torch has none"),
    ],
)
def test_a_gpu_without_the_kernel_takes_the_slower_path_and_says_so_once(
    dtype: torch.dtype,
    capability: tuple[int, int],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: capability)
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", None)
    find_varlen.cache_clear()
    gpu = torch.device("cuda", 0)
    try:
        backends = [backend_for(gpu, dtype, shortest_view) for shortest_view in (2, 64)]
    finally:
        find_varlen.cache_clear()
        backend_for.cache_clear()
    assert [type(backend) for backend in backends] == [SplitAttention, SplitAttention]
    assert [backend._over_views for backend in backends] == [over_views_one_by_one] * 2
    assert [why in record.getMessage() for record in caplog.records] == [True]


def right(*tensors: object, return_aux: object, scale: float) -> object:
    return Varlen()(*tensors, scale=scale)


def of_other_arguments(*tensors: object, scale: float) -> object:
    return Varlen()(*tensors, scale=scale)


def without_results(*tensors: object, return_aux: object, scale: float) -> None:
    pass


def with_heads_in_another_order(*tensors: object, return_aux: object, scale: float) -> object:
    result, log_sums = Varlen()(*tensors, scale=scale)
    return result.flip(1), log_sums


def with_sums_in_another_base(*tensors: object, return_aux: object, scale: float) -> object:
    result, log_sums = Varlen()(*tensors, scale=scale)
    return result, log_sums / math.log(2)


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (right, None),
        (of_other_arguments, "unexpected keyword argument"),
        (without_results, "does not run here"),
        (with_heads_in_another_order, "its results are others"),
        (with_sums_in_another_base, "its results are others"),
    ],
)
def test_a_kernel_is_taken_where_it_computes_attention(
    kernel: Callable[..., object],
    why: str | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Releases of torch differ in them; a target would else be refused."""
    module = SimpleNamespace(AuxRequest=dict, varlen_attn=kernel)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (9, 0))
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", module)
    find_varlen.cache_clear()
    try:
        with pretended_gpu(monkeypatch):
            assert (find_varlen(GPU, torch.bfloat16) is None) == (why is not None)
    finally:
        find_varlen.cache_clear()
    assert [why in record.getMessage() for record in caplog.records if why] == [True] * (why is not None)


@pytest.mark.cuda
@pytest.mark.usefixtures("_views")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_kernel_of_a_gpu_gives_what_each_row_sees(dtype: torch.dtype) -> None:
    device = torch.device("cuda")
    varlen = find_varlen(device, dtype)
    if varlen is None:
        pytest.skip("this GPU has no variable-length attention")
    plan = plan_of(sharing_segments(), dtype=dtype, device=device)
    layer = make_layer(plan.rows)
    query, keys, values = (each.to(device, dtype) for each in (layer.query, layer.keys, layer.values))
    backend = SplitAttention(OverViewsAtOnce(varlen), shortest_view=8)
    found = backend.attend(plan, query, keys, values, SCORINGS["plain"])
    rounded = Layer(query.double().cpu(), keys.double().cpu(), values.double().cpu())
    torch.testing.assert_close(found.double().cpu(), dense(plan, rounded, SCORINGS["plain"]), rtol=0, atol=0.02)
