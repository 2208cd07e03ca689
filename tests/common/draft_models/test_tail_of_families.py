"""The tail of every family computes in passes what the target's last layers compute, with each layer's own type."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier
from typing import Any

import pytest
import torch

from common.draft_models.tail import load_tail, write_tail
from common.models.attention import PassContext, pool_for, run_layers, take_over
from common.models.checkpoint import load_causal_lm
from common.models.parts import head_of, layers_of, stack_of
from common.models.plan import PlanLimits, plan_pass
from common.models.segment import Segment
from netem.experiments.family_checkpoints import FAMILIES, LAYERS, VOCABULARY, make_family_checkpoint
from tests.other_families import AFMOE, ERNIE_MOE, GEMMA_4

ALL = {**FAMILIES, **{family.name: family for family in (AFMOE, ERNIE_MOE, GEMMA_4)}}
TOKENS = list(range(30, 60))
ROUNDING = 1e-4


@pytest.fixture(scope="module")
def tails(tmp_path_factory):
    """The directory of a family's last two layers, the target's logits, and what enters each of its layers."""

    @cache
    @torch.inference_mode()
    def make(family: str):
        folder = tmp_path_factory.mktemp(family)
        target = make_family_checkpoint(folder / "target", ALL[family])
        write_tail(target, 2, folder / "tail")
        whole = load_causal_lm(target, dtype="float64")
        entering: list[torch.Tensor] = []

        def note(_: object, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            entering.append(given[0] if given else named["hidden_states"])

        for layer in layers_of(whole):
            layer.register_forward_pre_hook(note, with_kwargs=True)
        due = whole(torch.tensor([TOKENS]), use_cache=False).logits[0]
        return folder / "tail", due, entering

    return make


def test_two_threads_run_layers_of_one_model_at_the_same_time(tails) -> None:
    """As two conversations do that draft with the target's last layers."""
    tail = load_tail(tails("llama")[0], 1, "cpu", "float64")
    take_over(tail)
    rows = torch.randn(2, 1, len(TOKENS), tail.config.hidden_size, dtype=torch.float64)

    def run(entering: torch.Tensor) -> torch.Tensor:
        count = len(TOKENS)
        plan = plan_pass(
            [Segment(TOKENS, range(count), range(-1, count - 1))],
            PlanLimits(count, VOCABULARY, torch.float64, torch.device("cpu")),
        )
        with torch.inference_mode():
            return run_layers(tail, PassContext(plan.attention, pool_for(tail, count)), plan.positions, entering)

    alone = [run(each) for each in rows]
    both_inside = Barrier(2, timeout=60)

    def wait(_: object, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        if "inputs_embeds" in named:
            both_inside.wait()

    stack_of(tail).register_forward_pre_hook(wait, with_kwargs=True)
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(run, rows))
    for ours, theirs in zip(alone, together, strict=True):
        torch.testing.assert_close(theirs, ours, rtol=0, atol=0)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("family", ALL)
@torch.inference_mode()
def test_the_last_layers_of_every_family(family: str, layers: int, tails) -> None:
    directory, due, entering = tails(family)
    tail = load_tail(directory, layers, "cpu", "float64")
    assert len(layers_of(tail)) == layers
    take_over(tail)
    count = len(TOKENS)
    plan = plan_pass(
        [Segment(TOKENS, range(count), range(-1, count - 1))],
        PlanLimits(count, VOCABULARY, torch.float64, torch.device("cpu")),
    )
    out = run_layers(
        tail, PassContext(plan.attention, pool_for(tail, count)), plan.positions, entering[LAYERS - layers]
    )
    torch.testing.assert_close(head_of(tail)(out[0]), due, rtol=0, atol=ROUNDING)
