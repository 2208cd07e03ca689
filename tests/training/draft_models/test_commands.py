"""The draft commands: shared options once for every kind, and bad input as one sentence before torch is loaded."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
import torch
import typer
from typer.main import get_command
from typer.testing import CliRunner

from common.draft_kinds import TRAINED_KINDS, DraftKind, DraftParts
from common.models.errors import CheckpointError
from tests.training.draft_models.fake_recipe import answered
from training import cli
from training.draft_models import commands, trainer
from training.draft_models.batches import SampleBatches
from training.draft_models.chat import Sample
from training.draft_models.recipe import Evaluation
from training.draft_models.trainer import TrainSettings

TRAIN = trainer.train_draft

KINDS = [kind.name for kind in TRAINED_KINDS]


@pytest.fixture(scope="module")
def app() -> Iterator[typer.Typer]:
    """Of which the commands are made once, as in a program: an invocation by tests would make all of them anew."""
    app = typer.Typer()
    commands.add_draft_commands(app)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(get_command))
        yield app


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, TrainSettings, dict[str, Any]]]:
    """What reaches the trainer: kind, settings, and the options of the recipe's `build`."""
    found: list[tuple[str, TrainSettings, dict[str, Any]]] = []

    def load(name: str) -> SimpleNamespace:
        return SimpleNamespace(build=lambda target, **options: (name.rsplit(".", 1)[1], options))

    def train(settings: TrainSettings, build: Any, bar: Any) -> Evaluation:
        kind, options = build(SimpleNamespace(config=None, directory=Path()))
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


@pytest.mark.parametrize("kind", TRAINED_KINDS, ids=KINDS)
def test_a_target_without_a_tail_is_refused_before_any_work(
    kind: DraftKind, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = SimpleNamespace(config=SimpleNamespace(num_kv_shared_layers=2), directory=tmp_path / "target")
    built: list[str] = []
    monkeypatch.setattr(commands, "load_recipe", lambda name: SimpleNamespace(build=lambda _: built.append(name)))
    monkeypatch.setattr(trainer, "train_draft", lambda settings, build, bar: build(target))
    shared = {"target": "t", "data": [tmp_path / "data"], "out": tmp_path / "out", "lr": None, "regenerate": False}
    if kind.parts is DraftParts.ON_TAIL:
        with pytest.raises(CheckpointError, match=r"read more than hidden states \(num_kv_shared_layers\)"):
            commands.train(kind.name, {}, shared)
    else:
        commands.train(kind.name, {}, shared)
    assert len(built) == (kind.parts is not DraftParts.ON_TAIL)


@pytest.mark.parametrize("kind", KINDS)
def test_no_option_takes_what_is_no_number_of_its_kind(app: typer.Typer, called: list[Any], kind: str) -> None:
    own = inspect.signature(commands.own_options(kind), eval_str=True).parameters
    of_all = inspect.signature(commands.shared, eval_str=True).parameters
    wrong = {float: ("nan", "inf", "-0.5"), int: ("-1", "1" + "0" * 20)}
    tried = 0
    for name, parameter in (own | of_all).items():
        taken = get_args(get_args(parameter.annotation)[0]) or get_args(parameter.annotation)[:1]
        for value in wrong.get(taken[0], ()):
            line = [kind, "--target", "demo", "--data", "a", "--out", "o", f"--{name.replace('_', '-')}", value]
            result = CliRunner().invoke(app, line)
            said = f"{result.exception}{result.output}"
            assert (
                "Input should be" in said
                or f"must be a number from 0 to 9,223,372,036,854,775,807, not {value}" in said
            )
            tried += 1
    assert tried >= 16
    assert called == []


@pytest.mark.parametrize("seed", ["0", str(2**63 - 1)])
def test_every_seed_that_is_taken_can_be_trained_with(app: typer.Typer, called: list[Any], seed: str) -> None:
    result = CliRunner().invoke(app, ["moa", "--target", "demo", "--data", "a", "--out", "o", "--seed", seed])
    assert result.exit_code == 0, result.output
    torch.manual_seed(called[0][1].seed)
    sample = Sample(np.arange(3, dtype=np.int32), np.ones(3, dtype=bool))
    assert SampleBatches([sample], 8, called[0][1].seed).batch(0).ids.shape == (1, 8)


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


@pytest.mark.parametrize(
    ("stored", "options", "said"),
    [
        ((), (), "interrupted before the first step; the same command begins again"),
        (
            ("regenerated.jsonl",),
            ("--regenerate",),
            "interrupted before the first step; the same command begins again, with the target's answers so far",
        ),
        (("regenerated.jsonl",), (), "interrupted before the first step; the same command begins again"),
        ((), ("--resume",), "interrupted before the first step; the same command without --resume begins again"),
        (("settings.json",), (), "interrupted; the same command with --resume continues"),
        (("settings.json",), ("--resume",), "interrupted; the same command continues"),
    ],
)
def test_ctrl_c_says_which_command_goes_on(
    stored: tuple[str, ...],
    options: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "draft"

    def train(*_: Any) -> None:
        for name in stored:
            out.with_name("draft.work").mkdir(exist_ok=True)
            (out.with_name("draft.work") / name).write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "train_draft", train)
    line = ["outrider-train", "eagle", "--target", "demo", "--data", "d", "--out", str(out), *options]
    monkeypatch.setattr(sys, "argv", line)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 130
    assert capsys.readouterr().err == f"outrider-train: {said}\n"


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
