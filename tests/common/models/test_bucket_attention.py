"""Attention with fixed shapes gives each row what it gets without them, and its shapes follow from the bucket."""

from dataclasses import replace

import pytest
import torch

from common.models.bucket_attention import BucketAttention, lay_out_bucket
from common.models.buckets import NoBucketError, bucket_of
from common.models.segment import Segment
from tests.common.models.dense_attention import (
    SCORINGS,
    SLOTS,
    dense,
    make_layer,
    plan_of,
    random_segments,
    sharing_segments,
)
from tests.common.models.varlen import Varlen

UNCAPPED = {name: scoring for name, scoring in SCORINGS.items() if scoring.softcap is None} | {
    "everything": replace(SCORINGS["all"], softcap=None)
}
PASSES = [*map(random_segments, range(4)), sharing_segments()]


@pytest.mark.parametrize(
    ("shortest_piece", "most_results"),
    [(256, 8_192), (16, 8_192), (16, 1)],
    ids=["whole", "cut", "a launch for each range of a row"],
)
@pytest.mark.parametrize("name", UNCAPPED)
@pytest.mark.parametrize("segments", PASSES)
def test_each_row_gets_what_it_sees(
    name: str, segments: list[Segment], shortest_piece: int, most_results: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("common.models.view_launches._SHORTEST_PIECE", shortest_piece)
    monkeypatch.setattr("common.models.view_launches._MOST_RESULTS", most_results)
    plan, alone = plan_of(segments, bucket_of(segments)), plan_of(segments)
    layer = make_layer(plan.rows)
    found = BucketAttention(Varlen(), shortest_view=8).attend(
        plan, layer.query, layer.keys, layer.values, UNCAPPED[name]
    )
    assert plan.rows > alone.rows
    torch.testing.assert_close(found[: alone.rows], dense(alone, layer, UNCAPPED[name]), rtol=0, atol=1e-12)
    assert found.isfinite().all(), "rows that fill the pass up got what the kernel had not written"


def test_nothing_of_another_session_reaches_a_row() -> None:
    segments = random_segments(2)
    plan, layer = plan_of(segments, bucket_of(segments)), make_layer(SLOTS)
    spoilt = plan.segments[0]
    layer.values[:, torch.from_numpy(spoilt.context_slots)] = torch.nan
    rows = torch.arange(sum(len(segment.tokens) for segment in segments))
    is_spoilt = rows < spoilt.new
    found = BucketAttention(Varlen(), shortest_view=8).attend(
        plan, layer.query[:, : plan.rows], layer.keys, layer.values, SCORINGS["plain"]
    )
    assert found[: len(rows)][is_spoilt].isnan().all()
    assert found[: len(rows)][~is_spoilt].isfinite().all()


def test_what_is_too_uneven_has_no_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """One session's slots are scattered, and the call would be as wide for the others."""
    scattered = Segment([1], [0], [-1], range(2, 600, 2), [0])
    trees = [Segment([1] * 40, range(600 + 40 * n, 640 + 40 * n), [-1] * 40) for n in range(4)]
    plan = plan_of([scattered, *trees], bucket_of([scattered, *trees]))
    pairs = lay_out_bucket(plan, None, None, 64, 2, 3).mask_B1QC.numel()
    assert pairs >= 5 * 40 * 300
    monkeypatch.setattr("common.models.bucket_attention.MOST_PAIRS", pairs - 1)
    with pytest.raises(NoBucketError):
        lay_out_bucket(plan, None, None, 64, 2, 3)
