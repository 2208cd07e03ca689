"""Several processes learn what one process learns from as many batches a step."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from common.models.errors import CheckpointError
from tests.training.draft_models import fake_recipe
from tests.training.draft_models.fake_recipe import make_inputs, weights
from training.draft_models.workers import LONGEST_WAIT, OneWorker, gather_workers

PRINTS_ITS_PATIENCE = """
import torch
from training.draft_models.workers import ManyWorkers

workers = ManyWorkers("cpu")
backend = torch.distributed.group.WORLD._get_backend(workers.device)
print(backend.options._timeout.total_seconds())
workers.leave()
"""


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
def test_processes_wait_for_days_while_the_first_makes_answers() -> None:
    place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    environment = {**os.environ, **place, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PRINTS_ITS_PATIENCE], env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == LONGEST_WAIT.total_seconds() >= 24 * 3600


def test_one_process_takes_the_device_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with gather_workers(None) as worker:
        assert isinstance(worker, OneWorker)
        assert worker.device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(CheckpointError, match="the device 'cuda:99' is not in this machine"), gather_workers("cuda:99"):
        pass
