"""The offsets that a GPU's kernel gets, given to a statement of what it computes, in plain torch."""

import sys
from itertools import pairwise

import pytest
import torch

from common.models.attention_backend import SplitAttention, backend_for
from common.models.attention_cuda import OverViewsAtOnce, ViewSequences, find_varlen
from common.models.attention_layout import lay_out
from common.models.attention_parts import over_views_one_by_one
from tests.common.models.dense_attention import CPU, SCORINGS, dense, make_layer, random_plan


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
    assert varlen.calls == (0 if scoring.softcap else max(view.part for view in views) + 1)


def test_offsets_are_made_once_for_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, made = random_plan(0), []
    right = ViewSequences.of
    monkeypatch.setattr(ViewSequences, "of", lambda views, device: made.append(list(views)) or right(made[-1], device))
    layer, backend = make_layer(plan.rows), SplitAttention(OverViewsAtOnce(Varlen()), shortest_view=8)
    for _ in range(3):
        backend.attend(plan, layer.query, layer.keys, layer.values, SCORINGS["plain"])
    views = plan.once(lay_out, None, None, 8).views
    assert made == [[view for view in views if view.part == part] for part in range(len(made))]
    assert sum(map(len, made)) == len(views)


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
    plan = random_plan(0)
    layer = make_layer(plan.rows)
    query, keys, values = (each.to(device, dtype) for each in (layer.query, layer.keys, layer.values))
    layout = plan.once(lay_out, None, None, 8)
    grouped = query.view(keys.shape[0], -1, *query.shape[1:])
    partials = OverViewsAtOnce(varlen)(grouped, keys, values, layout, SCORINGS["plain"])
    results = {
        (part, row): result[:, :, index]
        for part, (rows, result, _) in enumerate(partials)
        for index, row in enumerate(torch.arange(plan.rows, device=device)[rows].tolist())
    }
    for view in layout.views:
        scores = torch.einsum("kfnd,ksd->kfns", grouped[:, :, view.rows], keys[:, view.slots]) * 0.3
        expected = torch.einsum("kfns,ksv->kfnv", scores.float().softmax(-1), values[:, view.slots].float())
        result = torch.stack([results[view.part, row] for row in range(plan.rows)[view.rows]], dim=2)
        torch.testing.assert_close(result.float(), expected, rtol=0, atol=0.02)
