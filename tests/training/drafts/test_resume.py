"""A run that was killed at a random moment and continued gives the weights of one run through, bit for bit."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.training.drafts import fake_recipe
from tests.training.drafts.fake_recipe import equal, make_inputs, weights
from training.drafts.checkpoint import WorkFolder

STEPS = 40
PAUSE = 0.03


def arguments(inputs: tuple[Path, Path], out: Path, pause: float = 0.0, resume: bool = False) -> list[str]:
    return [*map(str, inputs), str(out), str(STEPS), "1", str(pause), "resume" if resume else "anew"]


def train_here(monkeypatch: pytest.MonkeyPatch, given: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["fake_recipe", *given])
    fake_recipe.main()


def kill_at_a_random_moment(inputs: tuple[Path, Path], out: Path) -> None:
    """Starts a run in a process of its own and kills it between its first checkpoint and its end."""
    program = [sys.executable, "-m", "tests.training.drafts.fake_recipe", *arguments(inputs, out, PAUSE)]
    process = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not WorkFolder(out).checkpoint.exists():
        assert process.poll() is None
        time.sleep(0.005)
    time.sleep(random.uniform(0, 0.6 * STEPS * PAUSE))
    assert process.poll() is None, "the run ended before it could be killed"
    process.kill()
    process.wait(timeout=60)
    assert not (out / "model.safetensors").exists()


def test_a_killed_run_continues_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = make_inputs(tmp_path)
    killed, through = tmp_path / "killed", tmp_path / "through"
    train_here(monkeypatch, arguments(inputs, through))
    kill_at_a_random_moment(inputs, killed)
    train_here(monkeypatch, arguments(inputs, killed, resume=True))
    assert equal(weights(killed), weights(through))
    assert int(weights(killed)["seen"]) == STEPS
    log = [json.loads(line) for line in WorkFolder(killed).log.read_text().splitlines()]
    assert [entry["step"] for entry in log] == list(range(1, STEPS + 1))
    assert not WorkFolder(killed).checkpoint.exists()
