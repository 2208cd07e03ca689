"""The draft commands: shared options once for every kind, and bad input as one sentence before torch is loaded."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from common.draft_kinds import TRAINED_KINDS
from tests.training.draft_models.fake_recipe import answered
from training import cli
from training.draft_models import commands, trainer
from training.draft_models.recipe import Evaluation
from training.draft_models.trainer import TrainSettings

TRAIN = trainer.train_draft

KINDS = [kind.name for kind in TRAINED_KINDS]


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    commands.add_draft_commands(app)
    return app


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, TrainSettings, dict[str, Any]]]:
    """What reaches the trainer: kind, settings, and the options of the recipe's `build`."""
    found: list[tuple[str, TrainSettings, dict[str, Any]]] = []

    def load(name: str) -> SimpleNamespace:
        return SimpleNamespace(build=lambda target, **options: (name.rsplit(".", 1)[1], options))

    def train(settings: TrainSettings, build: Any, bar: Any) -> Evaluation:
        kind, options = build(None)
        found.append((kind, settings, options))
        return Evaluation({0: [answered(tokens=470, passes=201)]})

    monkeypatch.setattr(commands, "load_recipe", load)
    monkeypatch.setattr(trainer, "train_draft", train)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_target_data_and_out_are_enough(app: typer.Typer, called: list[Any], kind: str) -> None:
    result = CliRunner().invoke(app, [kind, "--target", "demo", "--data", "a", "--data", "b", "--out", "o"])
    assert result.exit_code == 0, result.output
    ((found, settings, options),) = called
    assert not any(options.values()), "the recipe's own defaults stand"
    assert found == kind
    wanted = TrainSettings("demo", (Path("a"), Path("b")), Path("o"), command=settings.command)
    assert settings == wanted
    assert result.stdout == "o: accept length 2.35 on held-out prompts\n"


def test_every_setting_has_its_option(app: typer.Typer, called: list[Any]) -> None:
    given = {
        "--target": "t", "--data": "d", "--out": "o", "--steps": "5", "--minutes": "2.5", "--batch-tokens": "6",
        "--max-length": "7", "--lr": "0.5", "--seed": "8", "--dtype": "bfloat16", "--device": "cpu",
        "--accumulate": "9", "--held-out": "h", "--threads": "3", "--save-every": "4",
    }  # fmt: skip
    flags = ["--regenerate", "--resume"]
    line = [part for pair in given.items() for part in pair] + flags
    result = CliRunner().invoke(app, ["moa", *line, "--layers", "3, 0"])
    assert result.exit_code == 0, result.output
    ((_, settings, options),) = called
    defaults = TrainSettings("", (), Path())
    assert options["layers"] == (0, 3)
    assert settings.rate == 0.5
    assert len(given) + len(flags) + 1 == len(fields(TrainSettings))
    assert [f.name for f in fields(settings) if getattr(settings, f.name) == getattr(defaults, f.name)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_kinds_options_are_what_its_recipe_takes(kind: str) -> None:
    taken = inspect.signature(importlib.import_module(f"training.draft_models.recipes.{kind}").build).parameters
    own = commands.own_options(kind)
    assert set(own(**dict.fromkeys(inspect.signature(own).parameters))) <= set(taken)


def test_a_kind_without_a_file_of_options_has_none() -> None:
    assert commands.own_options("absent")() == {}


@pytest.mark.parametrize("missing", ["--target", "--data", "--out"])
def test_what_is_needed_is_asked_for(app: typer.Typer, missing: str) -> None:
    line = [part for name in ("--target", "--data", "--out") if name != missing for part in (name, "x")]
    result = CliRunner().invoke(app, ["eagle", *line])
    assert result.exit_code == 2
    assert missing in result.output


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["moa", "--layers", "0,-1"], "--layers 0,-1 must be whole numbers"),
        (["eagle", "--steps", "0"], "--steps must be above 0"),
        (["medusa", "--dtype", "int8"], "--dtype int8 cannot be trained in"),
        (["independent", "--steps", "5", "--minutes", "5"], "contradict each other"),
    ],
)
def test_bad_input_is_one_sentence(
    line: list[str],
    said: str,
    called: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(trainer, "train_draft", TRAIN)
    shared = ["--target", "demo", "--data", str(tmp_path / "x.jsonl"), "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["outrider-train", *line, *shared])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    printed = capsys.readouterr()
    assert stopped.value.code == 2
    assert printed.out == ""
    assert printed.err.startswith("outrider-train: ")
    assert printed.err.count("\n") == 1
    assert said in printed.err


def test_help_names_every_kind_and_loads_no_torch() -> None:
    program = (
        "import sys\nfrom training.cli import main\nsys.argv = ['outrider-train', 'moa', '--help']\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "--layers" in done.stdout
    assert "--resume" in done.stdout
