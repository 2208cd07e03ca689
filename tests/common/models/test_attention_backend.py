"""Attention by views, gathered contexts and their merge, and by pages, against one dense softmax a row."""

import pytest
import torch

from common.models.attention_backend import AttentionBackend, backend_for
from common.models.exact_attention import ExactAttention
from common.models.plan import PlanLimits, plan_pass
from common.models.segment import Segment
from tests.common.models.dense_attention import CPU, SCORINGS, SLOTS, dense, make_layer, random_plan


@pytest.fixture(params=[1, 8, 64, "pages"])
def backend(request: pytest.FixtureRequest) -> AttentionBackend:
    return ExactAttention() if request.param == "pages" else backend_for(CPU, torch.float64, request.param)


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
    plan = plan_pass([segment], PlanLimits(SLOTS, 10, torch.float64, CPU)).attention
    layer = make_layer(1)
    found = backend.attend(plan, layer.query, layer.keys, layer.values, SCORINGS[name])
    torch.testing.assert_close(found, dense(plan, layer, SCORINGS[name]), rtol=0, atol=1e-12)
