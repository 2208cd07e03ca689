"""The offsets that a GPU's kernel gets, given to a statement of what it computes, in plain torch."""

import sys
from collections import Counter
from itertools import pairwise

import pytest
import torch

from common.models.attention_backend import SplitAttention, backend_for
from common.models.attention_cuda import OverViewsAtOnce, ViewSequences, find_varlen
from common.models.attention_layout import lay_out
from common.models.attention_parts import over_views_one_by_one
from common.models.plan import AttentionPlan, PlanLimits, plan_pass
from common.models.segment import Segment
from tests.common.models.dense_attention import CPU, SCORINGS, SLOTS, Layer, dense, make_layer, random_plan


class Varlen:
    """`varlen_attn` of torch, sequence by sequence. It counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        query_offsets: torch.Tensor,
        key_offsets: torch.Tensor,
        most_queries: int,
        most_keys: int,
        *,
        scale: float,
        enable_gqa: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls += 1
        assert query_offsets.dtype == key_offsets.dtype == torch.int32
        assert enable_gqa
        shared = query.shape[1] // key.shape[1]
        results = torch.full((*query.shape[:2], value.shape[2]), torch.nan, dtype=query.dtype)
        log_sums = torch.full((query.shape[1], query.shape[0]), torch.nan, dtype=query.dtype)
        sequences = zip(pairwise(query_offsets.tolist()), pairwise(key_offsets.tolist()), strict=True)
        for (first, stop), (start, end) in sequences:
            if first == stop:
                continue
            assert stop - first <= most_queries
            assert 0 < end - start <= most_keys
            k, v = (held[start:end].repeat_interleave(shared, dim=1) for held in (key, value))
            scores = torch.einsum("qhd,khd->hqk", query[first:stop], k) * scale
            log_sums[:, first:stop] = scores.logsumexp(-1)
            results[first:stop] = torch.einsum("hqk,khv->qhv", scores.softmax(-1), v)
        return results, log_sums


@pytest.mark.parametrize("name", SCORINGS)
@pytest.mark.parametrize("seed", range(3))
def test_launches_over_views_give_what_each_row_sees(name: str, seed: int) -> None:
    plan, varlen = random_plan(seed), Varlen()
    layer = make_layer(plan.rows)
    backend = SplitAttention(OverViewsAtOnce(varlen), shortest_view=8)
    found = backend.attend(plan, layer.query, layer.keys, layer.values, SCORINGS[name])
    torch.testing.assert_close(found, dense(plan, layer, SCORINGS[name]), rtol=0, atol=1e-12)
    scoring = SCORINGS[name]
    views = plan.once(lay_out, scoring.sliding_window, scoring.chunk, 8).views
    most_of_a_row = max(Counter(view.rows.start for view in views).values())
    assert varlen.calls == (0 if scoring.softcap else most_of_a_row)


def sharing_plan() -> AttentionPlan:
    """Sessions behind a common prefix of 200 slots: two that end with it, one whose own slots follow it, one that
    leaves it in the middle, and one beside them."""
    pasts = [range(200), range(200), range(250), [*range(120), *range(400, 500)], range(600, 700)]
    segments = [
        Segment([1, 1], [800 + 2 * index, 801 + 2 * index], [-1, -1], list(past), [0, 1])
        for index, past in enumerate(pasts)
    ]
    return plan_pass(segments, PlanLimits(SLOTS, 10, torch.float64, CPU)).attention


@pytest.mark.parametrize("name", SCORINGS)
def test_views_of_sessions_that_share_a_prefix_may_overlap(name: str) -> None:
    plan, varlen = sharing_plan(), Varlen()
    layer = make_layer(plan.rows)
    found = SplitAttention(OverViewsAtOnce(varlen), 8).attend(
        plan, layer.query, layer.keys, layer.values, SCORINGS[name]
    )
    torch.testing.assert_close(found, dense(plan, layer, SCORINGS[name]), rtol=0, atol=1e-12)
    if name == "plain":
        assert varlen.calls == 3, "views of the same slots are read in one launch"


def test_offsets_are_made_once_for_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, made = random_plan(0), []
    right = ViewSequences.of
    monkeypatch.setattr(ViewSequences, "of", lambda views, device: made.append(list(views)) or right(made[-1], device))
    layer, backend = make_layer(plan.rows), SplitAttention(OverViewsAtOnce(Varlen()), shortest_view=8)
    for _ in range(3):
        backend.attend(plan, layer.query, layer.keys, layer.values, SCORINGS["plain"])
    views = plan.once(lay_out, None, None, 8).views
    taken = [view for sequences in made for views_of_one in sequences for view in views_of_one]
    assert sorted(map(id, taken)) == sorted(map(id, views))


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_kernel_of_a_gpu_gives_what_each_row_sees(dtype: torch.dtype) -> None:
    device = torch.device("cuda")
    varlen = find_varlen(device, dtype)
    if varlen is None:
        pytest.skip("this GPU has no variable-length attention")
    plan = sharing_plan()
    layer = make_layer(plan.rows)
    query, keys, values = (each.to(device, dtype) for each in (layer.query, layer.keys, layer.values))
    backend = SplitAttention(OverViewsAtOnce(varlen), shortest_view=8)
    found = backend.attend(plan, query, keys, values, SCORINGS["plain"])
    rounded = Layer(query.double().cpu(), keys.double().cpu(), values.double().cpu())
    torch.testing.assert_close(found.double().cpu(), dense(plan, rounded, SCORINGS["plain"]), rtol=0, atol=0.02)
