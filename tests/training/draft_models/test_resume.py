"""A run that was killed and continued gives the weights of one run through, bit for bit."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.programs import FORKS
from tests.training.draft_models.fake_recipe import equal, make_inputs, run, weights
from training.draft_models.checkpoint import WorkFolder

STEPS = 40


def log_of(out: Path) -> list[str]:
    log = WorkFolder(out).log
    return log.read_text().splitlines() if log.exists() else []


def kill_behind_step(step: int, inputs: tuple[Path, Path], out: Path) -> None:
    """Starts a run in a process of its own and kills it in the step that follows `step`."""
    process = FORKS.Process(target=run, args=(inputs, out, STEPS), kwargs={"halts_in": step + 1}, daemon=True)
    process.start()
    while len(log_of(out)) < step:
        assert process.is_alive()
        time.sleep(0.01)
    process.kill()
    process.join(60)
    assert not (out / "model.safetensors").exists()


@pytest.mark.parametrize(("last_step", "saved"), [(4, 3), (20, 18)])
def test_a_killed_run_continues_exactly(tmp_path: Path, last_step: int, saved: int) -> None:
    inputs = make_inputs(tmp_path)
    killed, through = tmp_path / "killed", tmp_path / "through"
    run(inputs, through, STEPS)
    kill_behind_step(last_step, inputs, killed)
    log_before = log_of(killed)
    run(inputs, killed, STEPS, resume=True)
    assert equal(weights(killed), weights(through))
    assert int(weights(killed)["seen"]) == STEPS
    log = log_of(killed)
    assert [json.loads(line)["step"] for line in log] == list(range(1, STEPS + 1))
    # The log holds times: steps that were done again would say others.
    assert [old == new for old, new in zip(log_before, log, strict=False)] == [n < saved for n in range(last_step)]
    assert not WorkFolder(killed).checkpoint.exists()


def test_a_run_that_was_killed_before_its_first_checkpoint_says_that_it_begins_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs, killed = make_inputs(tmp_path), tmp_path / "killed"
    kill_behind_step(1, inputs, killed)
    run(inputs, killed, STEPS, resume=True)
    assert "no checkpoint yet, so the run begins again" in " ".join(capsys.readouterr().err.split())
