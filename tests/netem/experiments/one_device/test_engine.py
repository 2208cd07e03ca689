"""`engine`: its bounds, its exponents, and a quick run."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from common.models import attention_backend
from common.models.bucket_attention import BucketAttention
from common.models.buckets import MOST_QUERIES
from common.models.packed import PackedModel
from common.models.pass_graphs import PassGraphs
from common.protocol.errors import MisuseError
from netem.experiments.experiment import Request
from netem.experiments.one_device.dimensions import build
from netem.experiments.one_device.engine import QUICK, _Engine, _made_up, measure
from netem.experiments.one_device.engine_report import Measured, Point, PointTimes, exponent, find_faults, make_report
from netem.experiments.sizes.targets import chosen_targets
from tests.common.models.test_pass_graphs import ReplayOnTheSameBuffers
from tests.common.models.varlen import Varlen
from tests.pretended_gpu import pretended_gpu

GOOD = PointTimes(Point(8, 4096, 1), 12, 240.0, 400.0, 100.0, None, None, 0.9, 0.5)
ALONE = PointTimes(Point(1, 8192, 1), 12, 80.0, 80.0, 40.0, 85.0, 120.0, 0.9, 0.5)
WIDE = PointTimes(Point(16, 1024, 65), 12, 900.0, 1000.0, 100.0, None, None, 0.9, 0.5)


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each time, two are enough to have a row."""
    monkeypatch.setattr("netem.experiments.one_device.engine.QUICK", replace(QUICK, repetitions=2))


def test_a_run_within_its_bounds_is_valid() -> None:
    assert find_faults([GOOD, ALONE, WIDE]) == []


@pytest.mark.parametrize(
    ("measured", "fault"),
    [
        (replace(GOOD, ours_ms=260.0), "8 x 4,096 with 12 K/V heads takes 2.6 times the floor"),
        (replace(GOOD, one_by_one_ms=230.0), "8 x 4,096 with 12 K/V heads in one pass takes longer than one by one"),
        (
            replace(WIDE, planning_ms=1.2),
            "16 x 1,024 with 12 K/V heads and trees of 64 takes 1.2 ms of the server's own work",
        ),
        (replace(ALONE, ours_ms=86.0), "1 x 8,192 with 12 K/V heads takes 86.0 ms and transformers' step 85.0"),
    ],
)
def test_what_misses_a_bound_is_told(measured: PointTimes, fault: str) -> None:
    assert find_faults([measured]) == [fault]
    assert make_report([measured], Measured("a shape"), judged=False).faults == ()


def test_the_exponent_is_the_slope_of_the_larger_sizes() -> None:
    assert exponent([(1, 90.0), (2, 90.0), (4, 10.0), (8, 20.0), (16, 40.0)]) == pytest.approx(1.0)
    assert exponent([(1, 5.0), (2, 3.0), (4, 12.0)]) == pytest.approx(2.0)


def test_what_a_graph_makes_faster_counts() -> None:
    """In tokens/s, in the multiple of the floor and in the growth alike."""
    times = {512: 10.0, 1024: 10.0, 2048: 20.0, 4096: 40.0}
    measured = [
        replace(ALONE, point=Point(1, context, 1), ours_ms=80.0, replayed_ms=ms) for context, ms in times.items()
    ]
    report = make_report(measured, Measured("a shape"), judged=False)
    assert report.results["growth"] == {"context, 12 K/V heads": pytest.approx(1.0)}
    assert report.rows[0][4:8] == ("80.0", "10.0", "100.0", "0.25")


async def test_a_run_is_of_one_published_shape() -> None:
    request = Request(seed=0, quick=True)
    with pytest.raises(MisuseError, match="one published shape a run"):
        await measure(replace(request, targets=("Qwen3-0.6B", "Llama-3.1-8B")), lambda doing, share: None)
    with pytest.raises(MisuseError, match="no target 'Llama'"):
        await measure(replace(request, targets=("Llama",)), lambda doing, share: None)


def test_a_report_names_the_device_that_was_timed() -> None:
    on_gpu = make_report([ALONE], Measured("a shape", "cuda", "NVIDIA X", "bfloat16"), judged=False)
    assert "time on NVIDIA X" in on_gpu.remarks[0]
    assert (on_gpu.results["rows"][0]["device"], on_gpu.results["rows"][0]["dtype"]) == ("cuda", "bfloat16")


@pytest.mark.usefixtures("_hasty")
async def test_a_published_shape_runs_on_a_gpu_with_all_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_backend, "find_varlen", lambda device, dtype: Varlen())
    attention_backend.backend_for.cache_clear()
    request = Request(seed=0, quick=True, targets=("Qwen3-0.6B",), device="cuda")
    try:
        with pretended_gpu(monkeypatch):
            report = await measure(request, lambda doing, share: None)
    finally:
        attention_backend.backend_for.cache_clear()
    assert {(row["device"], row["dtype"]) for row in report.results["rows"]} == {("cuda", "bfloat16")}
    assert {row["kv_heads"] for row in report.results["rows"]} == {2}
    assert "3 layers of 64, 4 heads, vocabulary 2,048, passes as with --fast, bfloat16" in report.remarks[0]
    assert "time on a pretended GPU" in report.remarks[0]


@pytest.mark.usefixtures("_hasty")
async def test_a_quick_run_has_a_row_for_each_point_and_number_of_heads() -> None:
    report = await measure(Request(seed=0, quick=True), lambda doing, share: None)
    rows = report.results["rows"]
    assert [(row["sessions"], row["context"], row["rows"]) for row in rows] == [
        (point.sessions, point.context, point.rows) for point in QUICK.points
    ] * 2
    assert {row["kv_heads"] for row in rows} == {4, 1}
    assert all(row["planning_ms"] > row["packing_ms"] > 0 for row in rows)
    assert all(row["ours_ms"] > 0 and row["floor_ms"] > 0 and row["one_by_one_ms"] > 0 for row in rows)
    assert all((row["transformers_ms"] is not None) == (row["rows"] == 1) for row in rows)


def test_what_continuous_batching_does_once_is_no_part_of_its_step() -> None:
    engine = _Engine(QUICK, _made_up(QUICK)[0], Request(seed=0, quick=True))
    spent_s = [0.0]

    def generate_batch(prompts: Any, generation_config: Any, **_: Any) -> None:
        first_s = 0.0 if spent_s[0] else 3.0
        spent_s[0] += first_s + 1.0 + 0.01 * generation_config.max_new_tokens

    engine._plain = SimpleNamespace(generate_batch=generate_batch)
    engine._clock = lambda: spent_s[0]
    assert engine._batching_ms(Point(1, 512, 1)) == pytest.approx(10.0)


@pytest.mark.parametrize("name", ["Qwen3-0.6B", "Llama-3.1-8B"])
def test_the_floor_reads_all_weights_but_the_embedding_and_a_tied_one_as_the_head(name: str) -> None:
    shape = chosen_targets([name], quick=True)[name].dimensions
    engine = _Engine(QUICK, build(shape).config, Request(seed=0, quick=True))
    assert engine._weights_bytes == 4 * (shape.layers * shape.layer_parameters + shape.hidden + shape.head_parameters)


def test_only_passes_that_were_replayed_have_a_time_as_a_graph() -> None:
    engine = _Engine(QUICK, _made_up(QUICK)[1], Request(seed=0, quick=True))
    engine._graphs = PassGraphs(ReplayOnTheSameBuffers(), BucketAttention(Varlen()))
    engine._replayed = PackedModel(engine._packed.model, 1_024, graphs=engine._graphs)
    few, prompt = Point(2, 128, 4), Point(1, 128, MOST_QUERIES + 1)
    assert engine.measure(few).replayed_ms
    assert engine.measure(prompt).replayed_ms is None
    engine._graphs.give_up("a reason")
    assert engine.measure(few).replayed_ms is None
