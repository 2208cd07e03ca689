"""Several processes learn what one process learns from as many batches a step."""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch

from common.models.errors import CheckpointError
from tests.programs import FORKS
from tests.training.draft_models.fake_recipe import make_inputs, run, weights
from training.draft_models.workers import LONGEST_WAIT, ManyWorkers, OneWorker, gather_workers


class Product(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> str:
        return str(self.linear(x).dtype)


def _say_what_it_is(environment: dict[str, str], told: Connection) -> None:
    os.environ.update(environment)
    workers = ManyWorkers("cpu")
    backend = torch.distributed.group.WORLD._get_backend(workers.device)  # type: ignore[union-attr]
    product = Product()
    module, _ = workers.prepare(product, torch.optim.SGD(product.parameters()))
    told.send({"patience": backend.options._timeout.total_seconds(), "dtype": module(torch.ones(1, 2))})
    workers.leave()


def _launch(processes: int, function: Callable[..., None], *arguments: object) -> None:
    """As `torchrun --standalone` does, but that the processes are forked."""
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    launched = LaunchConfig(1, 1, processes, rdzv_backend="c10d", rdzv_endpoint="localhost:0", max_restarts=0)
    launched.start_method = "fork"
    elastic_launch(launched, function)(*arguments)


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    """By a process of several, on a machine that is configured for mixed precision."""
    place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "ACCELERATE_MIXED_PRECISION": "bf16"}
    ours, its = FORKS.Pipe()
    process = FORKS.Process(target=_say_what_it_is, args=(place, its), daemon=True)
    process.start()
    its.close()
    assert ours.poll(100)
    found: dict[str, Any] = ours.recv()
    process.join(100)
    assert process.exitcode == 0
    return found


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch cannot join processes")
def test_two_processes_equal_one_that_accumulates(tmp_path: Path) -> None:
    inputs, together, alone = make_inputs(tmp_path), tmp_path / "together", tmp_path / "alone"
    process = FORKS.Process(target=_launch, args=(2, run, inputs, together, 8))
    process.start()
    process.join(200)
    code = process.exitcode
    process.kill()
    assert code == 0
    run(inputs, alone, 8, accumulate=2)
    for name in ("1.weight", "1.bias"):
        torch.testing.assert_close(weights(together)[name], weights(alone)[name], rtol=1e-4, atol=1e-5)
    assert torch.equal(weights(together)["1.counts.counts"], weights(alone)["1.counts.counts"])


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch cannot join processes")
def test_processes_wait_for_days_while_the_first_makes_answers(said: dict[str, Any]) -> None:
    assert said["patience"] == LONGEST_WAIT.total_seconds() >= 24 * 3600


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch cannot join processes")
def test_processes_compute_in_the_dtype_of_the_run_whatever_the_machine_is_configured_for(said: dict[str, Any]) -> None:
    assert said["dtype"] == "torch.float32"


def test_one_process_takes_the_device_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with gather_workers(None) as worker:
        assert isinstance(worker, OneWorker)
        assert worker.device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(CheckpointError, match="the device 'cuda:99' is not in this machine"), gather_workers("cuda:99"):
        pass
