"""Several processes learn what one process learns from as many batches a step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from common.models.errors import CheckpointError
from tests.training.draft_models import fake_recipe
from tests.training.draft_models.fake_recipe import make_inputs, weights
from training.draft_models.workers import LONGEST_WAIT, OneWorker, gather_workers

SAYS_WHAT_IT_IS = """
import json
import torch
from training.draft_models.workers import ManyWorkers

class Product(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x):
        return str(self.linear(x).dtype)

workers = ManyWorkers("cpu")
backend = torch.distributed.group.WORLD._get_backend(workers.device)
module = Product()
module, _ = workers.prepare(module, torch.optim.SGD(module.parameters()))
print(json.dumps({"patience": backend.options._timeout.total_seconds(), "dtype": module(torch.ones(1, 2))}))
workers.leave()
"""


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    """By a process of several, on a machine that is configured for mixed precision."""
    place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **place, "ACCELERATE_MIXED_PRECISION": "bf16"}
    done = subprocess.run(
        [sys.executable, "-c", SAYS_WHAT_IT_IS], env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch cannot join processes")
def test_two_processes_equal_one_that_accumulates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [str(path) for path in make_inputs(tmp_path)]
    together, alone = tmp_path / "together", tmp_path / "alone"
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--standalone"]
    program = ["-m", "tests.training.draft_models.fake_recipe", *inputs, str(together), "8", "1", "0", "anew"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *launch, *program], env=environment, capture_output=True, timeout=200)
    assert done.returncode == 0, done.stderr.decode()
    monkeypatch.setattr(sys, "argv", ["fake_recipe", *inputs, str(alone), "8", "2", "0", "anew"])
    fake_recipe.main()
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
