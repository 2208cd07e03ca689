"""Attention by views, gathered contexts and their merge, and by pages, against one dense softmax a row."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from common.models.attention_backend import AttentionBackend, backend_for
from common.models.batch_invariant_attention import BatchInvariantAttention
from common.models.plan import PlanLimits, plan_pass
from common.models.segment import Segment
from tests.common.models.dense_attention import CPU, SCORINGS, SLOTS, dense, make_layer, random_plan

LIMITS = PlanLimits(SLOTS, 10, torch.float64, CPU)


@pytest.fixture(params=[1, 8, 64, "pages"])
def backend(request: pytest.FixtureRequest) -> AttentionBackend:
    return BatchInvariantAttention() if request.param == "pages" else backend_for(CPU, torch.float64, request.param)


@pytest.mark.parametrize("name", SCORINGS)
@pytest.mark.parametrize("seed", range(3))
def test_every_row_gets_the_softmax_over_what_it_sees(backend: AttentionBackend, name: str, seed: int) -> None:
    plan = random_plan(seed)
    layer = make_layer(plan.rows)
    found = backend.attend(plan, layer.query, layer.keys, layer.values, SCORINGS[name])
    torch.testing.assert_close(found, dense(plan, layer, SCORINGS[name]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["plain", "sinks"])
def test_values_may_be_narrower_than_keys(backend: AttentionBackend, name: str) -> None:
    plan = random_plan(7)
    layer = make_layer(plan.rows, value_dim=5)
    found = backend.attend(plan, layer.query, layer.keys, layer.values, SCORINGS[name])
    torch.testing.assert_close(found, dense(plan, layer, SCORINGS[name]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", SCORINGS)
def test_one_session_that_decodes(backend: AttentionBackend, name: str) -> None:
    segment = Segment([1], [320], [-1], range(20, 320), [0])
    plan = plan_pass([segment], LIMITS).attention
    layer = make_layer(1)
    found = backend.attend(plan, layer.query, layer.keys, layer.values, SCORINGS[name])
    torch.testing.assert_close(found, dense(plan, layer, SCORINGS[name]), rtol=0, atol=1e-12)


class LargestTensor(TorchDispatchMode):
    """The numbers of the largest tensor that is made, those of the pool aside."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and not func.is_view:
            self.numbers = max(self.numbers, made.numel())
        return made


def test_what_a_layer_allocates_does_not_grow_with_the_ranges_of_its_context() -> None:
    def attend(length: int) -> int:
        past = [slot for slot in range(700) if slot % (length + 1) < length]
        segment = Segment([1] * 50, range(700, 750), range(-1, 49), past, [0])
        plan, backend = plan_pass([segment], LIMITS).attention, backend_for(CPU, torch.float64, 8)
        layer = make_layer(plan.rows)
        backend.attend(plan, layer.query, layer.keys, layer.values, SCORINGS["plain"])
        with LargestTensor() as largest:
            backend.attend(plan, layer.query, layer.keys, layer.values, SCORINGS["plain"])
        return largest.numbers

    assert attend(10) == attend(350)
