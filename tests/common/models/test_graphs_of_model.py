"""Replays are used only where they agree with launched passes, and no fault of the check stops a server."""

import logging
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from common.models.bucket_attention import BucketAttention
from common.models.capture import Capture, Forward
from common.models.checkpoint import load_causal_lm
from common.models.graphs_of_model import check_replays, graphs_of
from common.models.pass_graphs import PassGraphs, say_once
from netem.experiments.family_checkpoints import FAMILIES, make_family_checkpoint
from tests.common.models.varlen import Varlen


def again(forward: Forward) -> Forward:
    return forward


def as_captured(forward: Forward) -> Forward:
    """Does not look at its buffers again."""
    result = forward()
    return lambda: result


def slightly_off(forward: Forward) -> Forward:
    return lambda: forward() * (1 + 2**-7)


def of_the_neighbour(forward: Forward) -> Forward:
    """Wrong in single-token steps alone."""
    rows = forward().shape[0]
    return lambda: forward().roll(1, 0) if rows == 8 else forward()


def failing(_: Forward) -> Forward:
    raise TypeError("varlen_attn() got an unexpected keyword")


def load(folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    model = load_causal_lm(make_family_checkpoint(folder, FAMILIES["llama"], layers=2), dtype=dtype)
    assert isinstance(model, PreTrainedModel)
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_replays_that_differ_are_noticed(dtype: torch.dtype, tmp_path: Path) -> None:
    model = load(tmp_path, dtype)
    wanted: list[tuple[Capture, bool]] = [
        (again, False),
        (as_captured, True),
        (slightly_off, True),
        (of_the_neighbour, True),
        (failing, True),
    ]
    found = []
    for capture, _ in wanted:
        graphs = PassGraphs(capture, BucketAttention(Varlen(), shortest_view=2))
        check_replays(model, graphs)
        found.append((capture, graphs.is_given_up))
    assert found == wanted


def test_another_attention_that_differs_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Launched and replayed alike, so that only the text tells."""
    say_once.cache_clear()

    class Halved(BucketAttention):
        def attend(self, *given: object) -> torch.Tensor:
            return super().attend(*given) / 2  # type: ignore[arg-type]

    graphs = PassGraphs(again, Halved(Varlen(), shortest_view=2))
    with caplog.at_level(logging.WARNING):
        check_replays(load(tmp_path, torch.float32), graphs)
    assert graphs.is_given_up
    assert "CheckpointError" in caplog.text


def test_a_cpu_has_no_graphs(tmp_path: Path) -> None:
    assert graphs_of(load(tmp_path, torch.float32)) is None
