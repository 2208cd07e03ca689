"""Passes that are replayed from a capture compute what passes without one do, whatever their buffers held before."""

import logging
import random
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.models.bucket_attention import BucketAttention, lay_out_bucket
from common.models.buckets import bucket_of
from common.models.capture import CudaCapture, Forward
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel, PassOutput
from common.models.pass_graphs import PassGraphs, _flatten, _rebuilt, say_once
from common.models.plan import PlanLimits, plan_pass
from common.models.segment import Segment
from common.models.slots import SlotPool
from netem.experiments.family_checkpoints import FAMILIES, make_family_checkpoint
from tests.common.models.session import Session
from tests.common.models.varlen import Varlen

CAPACITY, VOCABULARY, TAPS = 1_500, 300, (0, 2)


class ReplayOnTheSameBuffers:
    """Stands for CUDA graphs: a replay runs the forward again on the plan that was captured. It sees no other plan, so
    that whatever is not in the plan's buffers is as old as the capture. Results share memory, as graphs' do."""

    def __init__(self) -> None:
        self.captured = self.replayed = 0
        self._result = torch.empty(0)

    def __call__(self, forward: Forward) -> Forward:
        self.captured += 1

        def replay() -> torch.Tensor:
            self.replayed += 1
            self._result.fill_(torch.nan)
            self._result = forward()
            return self._result

        return replay


class Fails:
    """Cannot capture from the given time on."""

    def __init__(self, error: RuntimeError, first: int = 0) -> None:
        self.calls, self._error, self._first = 0, error, first

    def __call__(self, forward: Forward) -> Forward:
        self.calls += 1
        if self.calls > self._first:
            raise self._error
        return forward


class Twins:
    """One model with two pools: passes of the first are replayed, those of the second launched."""

    def __init__(self, directory: Path, capture: object) -> None:
        model = load_causal_lm(directory, dtype=torch.float64)
        self.graphs = PassGraphs(capture, BucketAttention(Varlen(), shortest_view=8))  # type: ignore[arg-type]
        self.replayed = PackedModel(model, CAPACITY, True, TAPS, graphs=self.graphs)
        self.launched = PackedModel(model, CAPACITY, True, TAPS)

    def check(self, segments: Sequence[Segment]) -> None:
        found, expected = self.replayed.forward(segments), self.launched.forward(segments)
        for attribute in PassOutput.__annotations__:
            self._compare(getattr(found, attribute), getattr(expected, attribute))

    def check_pools(self) -> None:
        held, expected = self.replayed.pool, self.launched.pool
        assert held.capacity == expected.capacity == CAPACITY
        for ours, theirs in zip(
            (*held.keys_KSD, *held.values_KSV), (*expected.keys_KSD, *expected.values_KSV), strict=True
        ):
            self._compare(ours[:, :CAPACITY], theirs)
        assert held.hidden_SE is not None
        assert expected.hidden_SE is not None
        self._compare(held.hidden_SE[:CAPACITY], expected.hidden_SE)
        for tap in TAPS:
            self._compare(held.taps_SE[tap][:CAPACITY], expected.taps_SE[tap])

    def _compare(self, found: torch.Tensor, expected: torch.Tensor) -> None:
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-9, equal_nan=True)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def make(family: str) -> Path:
        if family not in made:
            made[family] = make_family_checkpoint(tmp_path_factory.mktemp(family), FAMILIES[family])
        return made[family]

    return make


def chains(session: Session, choose: random.Random, length: int) -> Segment:
    return session.append([choose.randrange(VOCABULARY) for _ in range(length)])


def tree(session: Session, choose: random.Random, size: int) -> Segment:
    parents = [-1, *(choose.randrange(-1, node) for node in range(1, size))]
    return session.propose([choose.randrange(VOCABULARY) for _ in range(size)], parents)


def drop_branches(session: Session, slots: SlotPool) -> None:
    slots.give(session.branch_slots)
    session.branch_tokens, session.branch_slots, session.parents = [], [], []


def converse(twins: Twins, seed: int, sizes: Sequence[Sequence[int]]) -> None:
    """Sessions of various lengths; in each turn each computes a tree of so many nodes, 0 to leave it out."""
    choose, slots = random.Random(seed), SlotPool(CAPACITY)
    sessions = [Session(slots) for _ in sizes[0]]
    twins.check([chains(each, choose, 5 + 37 * number) for number, each in enumerate(sessions)])
    for each in sessions:
        each.commit(len(each.parents) - 1)
    for turn in sizes:
        taking_part = [(each, size) for each, size in zip(sessions, turn, strict=True) if size]
        twins.check([tree(each, choose, size) for each, size in taking_part])
        for each, size in taking_part:
            each.commit(choose.randrange(size))
            drop_branches(each, slots)
    twins.check_pools()


@pytest.mark.parametrize("family", ["llama", "gpt-oss"])
def test_every_replay_equals_the_launched_pass(family: str, checkpoint: Callable[[str], Path]) -> None:
    """Row counts around the bounds of buckets, larger passes before smaller ones, sessions that come and go."""
    capture = ReplayOnTheSameBuffers()
    twins = Twins(checkpoint(family), capture)
    sizes = [(30, 9, 20), (8, 0, 0), (9, 0, 0), (1, 1, 1), (7, 0, 0), (1, 1, 1)]
    converse(twins, 1, [*sizes, *sizes, *sizes])
    assert capture.captured >= 4
    assert capture.replayed > capture.captured, "no graph was used twice"


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.tuples(*[st.sampled_from([0, 1, 1, 2, 12])] * 4), min_size=2, max_size=12),
)
def test_replays_under_any_sequence_of_passes(
    seed: int, sizes: list[tuple[int, ...]], checkpoint: Callable[[str], Path]
) -> None:
    sizes = [each for each in sizes if any(each)] or [(1, 1, 1, 1)]
    converse(Twins(checkpoint("llama"), ReplayOnTheSameBuffers()), seed, sizes)


def test_a_chunk_of_a_prompt_is_launched(checkpoint: Callable[[str], Path]) -> None:
    capture = ReplayOnTheSameBuffers()
    twins, choose, slots = Twins(checkpoint("llama"), capture), random.Random(0), SlotPool(CAPACITY)
    for _ in range(4):
        twins.check([chains(Session(slots), choose, 200)])
    assert capture.captured == 0


@pytest.mark.parametrize(
    "error",
    [RuntimeError("operation not permitted when stream is capturing\n at line 5"), torch.OutOfMemoryError("full")],
)
def test_what_cannot_be_captured_is_named_once_and_launched(
    error: RuntimeError, checkpoint: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    say_once.cache_clear()
    capture = Fails(error, first=1)
    with caplog.at_level(logging.WARNING, "common.models.pass_graphs"):
        for _ in range(2):
            converse(
                Twins(checkpoint("llama"), capture), 3, [(1, 1), (1, 1), (12, 1), (12, 1), (1, 1), (12, 1), (30, 1)]
            )
    assert capture.calls == 3, "one captured, one failed; the second server fails at once"
    assert len(caplog.records) == 1
    assert str(error).splitlines()[0] in caplog.text


def test_layers_that_cannot_run_with_fixed_shapes_are_launched(
    checkpoint: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    """Gemma 2 caps its scores, which the kernel over views does not."""
    say_once.cache_clear()
    capture = ReplayOnTheSameBuffers()
    converse(Twins(checkpoint("gemma2"), capture), 3, [(1, 1)] * 4)
    assert capture.captured == 0
    assert "capped scores" in caplog.text


def test_graphs_that_were_not_used_for_long_are_dropped(
    checkpoint: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("common.models.pass_graphs.MOST_GRAPHS", 2)
    capture = ReplayOnTheSameBuffers()
    twins = Twins(checkpoint("llama"), capture)
    converse(twins, 5, [*[(0, 1)] * 2, *[(0, 20)] * 3, *[(0, 60)] * 3])
    assert len(twins.graphs._kept) == 2
    assert capture.captured > 2


def test_shapes_in_turns_that_are_more_than_graphs_are_kept_are_captured_ever_more_rarely(
    checkpoint: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each second sight captures would take longer than they save."""
    monkeypatch.setattr("common.models.pass_graphs.MOST_GRAPHS", 1)
    capture = ReplayOnTheSameBuffers()
    converse(Twins(checkpoint("llama"), capture), 5, [(0, 1), (0, 20)] * 15)
    assert capture.captured == 2 * 3, "each of the two shapes at its 2nd, 6th and 14th sight"


def test_a_shape_has_buffers_from_its_second_sight_and_graphs_few_bytes(
    checkpoint: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = ReplayOnTheSameBuffers()
    twins = Twins(checkpoint("llama"), capture)
    converse(twins, 5, [(0, 1), (0, 1), (0, 20), (0, 60)])
    of_one = twins.graphs.buffer_bytes
    assert capture.captured == len(twins.graphs._kept) == 1, "only one shape was seen twice"
    monkeypatch.setattr("common.models.pass_graphs.MOST_BYTES", 2 * of_one)
    converse(twins, 5, [(0, 1), (0, 2), (0, 2), (0, 20), (0, 20), (0, 60), (0, 60)])
    assert 0 < twins.graphs.buffer_bytes <= 2 * of_one


@pytest.mark.parametrize("uses", [1, 2], ids=["at once", "on other contents"])
def test_a_replay_that_differs_is_never_used(
    uses: int, checkpoint: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    """To each row its neighbour's result; or to all what was captured."""
    say_once.cache_clear()

    def capture(forward: Forward) -> Forward:
        captured = forward()
        return (lambda: forward().roll(1, 1)) if uses == 1 else (lambda: captured)

    twins = Twins(checkpoint("llama"), capture)
    converse(twins, 3, [(9, 1), (9, 1), (9, 1), (9, 1), (9, 1)])
    assert twins.graphs.is_given_up
    assert twins.graphs.buffer_bytes == 0
    assert "differs from what passes compute without" in caplog.text


def test_rows_that_are_no_numbers_end_no_graphs(checkpoint: Callable[[str], Path]) -> None:
    """As a float16 target's that overflows at some token: the answers that have it fail, and no other's graphs."""
    capture = ReplayOnTheSameBuffers()
    twins = Twins(checkpoint("llama"), capture)
    with torch.no_grad():
        twins.replayed.model.get_input_embeddings().weight[VOCABULARY // 2 :] = torch.nan
    converse(twins, 3, [(9, 1)] * 6)
    assert not twins.graphs.is_given_up
    assert capture.replayed > capture.captured > 0


def test_captures_of_two_targets_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    under_way, most = 0, 0

    @contextmanager
    def graph(*_: object, **__: object) -> Iterator[None]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        time.sleep(0.01)
        yield
        under_way -= 1

    for name in ("CUDAGraph", "Stream", "graph_pool_handle", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: None)
    for name in ("device", "stream"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: nullcontext())
    monkeypatch.setattr(torch.cuda, "graph", graph)
    with ThreadPoolExecutor(2) as workers:
        list(workers.map(CudaCapture, [torch.device("cpu")] * 2))
    assert most == 1


def test_passes_are_planned_once_where_graphs_are_given_up(
    checkpoint: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    twins = Twins(checkpoint("llama"), ReplayOnTheSameBuffers())
    twins.graphs.give_up("a reason")
    planned = []
    monkeypatch.setattr("common.models.packed.plan_pass", lambda *given: planned.append(given) or plan_pass(*given))
    twins.replayed.forward([Segment([1], [0], [-1])])
    assert len(planned) == 1


def test_graphs_that_are_given_up_let_their_memory_go(checkpoint: Callable[[str], Path]) -> None:
    """A capture keeps it for good: passes that had none left would go on without it."""
    capture = ReplayOnTheSameBuffers()
    twins, held = Twins(checkpoint("llama"), capture), weakref.ref(capture)
    converse(twins, 3, [(9, 1)] * 5)
    assert capture.captured
    del capture
    assert held() is not None
    twins.graphs.give_up("a reason")
    assert held() is None


def test_a_layout_for_a_bucket_can_be_taken_apart() -> None:
    """What `AttentionPlan.once` asks of layouts for buckets."""
    segments = [Segment([1, 2], [100, 101], [-1, 0], range(100))]
    limits = PlanLimits(CAPACITY, VOCABULARY, torch.float64, torch.device("cpu"))
    plan = plan_pass(segments, limits, bucket_of(segments)).attention
    layout = plan.once(lay_out_bucket, None, None, 8, 2, 3)
    tensors: list[torch.Tensor] = []
    hash(_flatten(layout, tensors))
    again: list[torch.Tensor] = []
    assert _flatten(_rebuilt(layout, iter(tensors)), again) == _flatten(layout, [])
    assert all(map(torch.equal, tensors, again))
    with pytest.raises(TypeError):
        _flatten(np.zeros(1), [])


@pytest.mark.cuda
def test_cuda_graphs_equal_launched_passes(checkpoint: Callable[[str], Path]) -> None:
    from common.models.attention_cuda import find_varlen

    device = torch.device("cuda", 0)
    model = load_causal_lm(checkpoint("llama"), "cuda", torch.bfloat16)
    varlen = find_varlen(device, torch.bfloat16)
    if varlen is None:
        pytest.skip("this GPU has no variable-length attention")
    graphs = PassGraphs(CudaCapture(device), BucketAttention(varlen))
    replayed, launched = PackedModel(model, CAPACITY, graphs=graphs), PackedModel(model, CAPACITY)
    choose, slots = random.Random(0), SlotPool(CAPACITY)
    sessions = [Session(slots), Session(slots)]
    for size in (80, *[20, 1, 1] * 5):
        segments = [tree(each, choose, size) for each in sessions]
        found, expected = (each.forward(segments).logits.float().cpu() for each in (replayed, launched))
        torch.testing.assert_close(found, expected, rtol=0, atol=0.6)
        for each in sessions:
            each.commit(choose.randrange(size))
            drop_branches(each, slots)
    assert not graphs.is_given_up
    assert any(each.unchecked == 0 for each in graphs._kept.values()), "nothing was replayed alone"


@pytest.mark.cuda
def test_a_graph_can_be_captured_after_all_others_were_dropped() -> None:
    """As those of the check at load are."""
    device = torch.device("cuda", 0)
    capture, ones = CudaCapture(device), torch.ones(4, device=device)
    for factor in (2, 3):
        replay = capture(lambda factor=factor: ones * factor)  # type: ignore[misc]
        assert replay().tolist() == [factor] * 4
        del replay
