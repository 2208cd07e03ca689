"""What is checked of a target before it is served, and how its passes are computed then."""

from pathlib import Path

import pytest

from common.models.errors import CheckpointError
from common.models.pass_graphs import say_once
from netem.experiments.family_checkpoints import FAMILIES, make_family_checkpoint
from server.models.target_loader import load_target
from tests.pretended_gpu import GPU, load_on_cpu_first, pretended_gpu


def test_a_target_whose_passes_do_not_agree_is_not_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = make_family_checkpoint(tmp_path / "target", FAMILIES["cohere"])
    options = {"device": "cpu", "dtype": "float32", "capacity": 16, "threads": 0}
    assert load_target(str(target), **options).model.pool.capacity == 16  # type: ignore[arg-type]
    monkeypatch.setattr("common.models.packed.head_of", lambda model: model.lm_head)
    with pytest.raises(CheckpointError, match="packed passes do not agree with the model type 'cohere'"):
        load_target(str(target), **options)  # type: ignore[arg-type]


def test_where_no_row_multiple_helps_batch_invariant_passes_are_refused_or_left(
    target: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("server.models.target_loader.row_multiple", lambda model: None)
    options = {"device": "cpu", "dtype": "bfloat16", "capacity": 16, "threads": 1}
    with pytest.raises(CheckpointError, match="choose --fast"):
        load_target(str(target), **options, batch_invariant=True)  # type: ignore[arg-type]
    assert not load_target(str(target), **options).is_batch_invariant  # type: ignore[arg-type]
    assert "nearly as likely" in caplog.text
    caplog.clear()
    load_target(str(target), **options, batch_invariant=False)  # type: ignore[arg-type]
    assert not caplog.text
    monkeypatch.setattr("server.models.target_loader.row_multiple", lambda model: 4)
    assert load_target(str(target), **options).is_batch_invariant  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("device", "batch_invariant", "asked", "is_tried", "said"),
    [
        (str(GPU), False, None, True, ""),
        (str(GPU), False, True, True, ""),
        (str(GPU), False, False, False, ""),
        (str(GPU), True, None, False, ""),
        (str(GPU), True, True, False, "batch-invariant passes have too many shapes"),
        ("cpu", False, None, False, ""),
        ("cpu", False, True, True, ""),
    ],
)
def test_passes_are_replayed_on_a_gpu_or_as_asked(
    device: str,
    batch_invariant: bool,
    asked: bool | None,
    is_tried: bool,
    said: str,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What was not asked for and cannot be is no warning."""
    tried: list[object] = []
    monkeypatch.setattr("server.models.target_loader.graphs_of", tried.append)
    monkeypatch.setattr("server.models.target_loader.row_multiple", lambda model: 1)
    monkeypatch.setattr("server.models.target_loader.load_causal_lm", load_on_cpu_first)
    say_once.cache_clear()
    with pretended_gpu(monkeypatch):
        load_target(
            str(target),
            device=device,
            dtype="float32",
            capacity=16,
            threads=1,
            batch_invariant=batch_invariant,
            cuda_graphs=asked,
        )
    assert bool(tried) == is_tried
    assert said in caplog.text
    assert ("not captured" in caplog.text) == bool(said)
