"""The command line: bad input gives one sentence and exit code 2, and help imports no torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from training.cli import app


def refused(*arguments: str) -> str:
    """The one sentence on standard error of a refused command."""
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(".\n")
    return done.stderr


def test_minutes_must_be_positive(tmp_path: Path) -> None:
    assert "--minutes must be above 0" in refused("demo", "--out", str(tmp_path), "--minutes", "0")


def test_a_missing_data_folder_is_named(tmp_path: Path) -> None:
    assert "nowhere does not exist" in refused("demo", "--out", str(tmp_path), "--data", str(tmp_path / "nowhere"))


def test_every_missing_file_is_named(tmp_path: Path) -> None:
    said = refused("demo", "--out", str(tmp_path / "out"), "--data", str(tmp_path))
    assert "train/tinystories_10k.txt" in said
    assert "train/rasbt_instruction_data.json" in said


def test_an_earlier_run_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    assert "--resume" in refused("demo", "--out", str(tmp_path))


def test_resuming_with_other_settings_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "settings.json").write_text("{}")
    assert "other settings" in refused("demo", "--out", str(tmp_path), "--resume")


def test_an_output_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert "is a file" in refused("demo", "--out", str(file))


def test_evaluation_names_missing_models(tmp_path: Path) -> None:
    assert "lacks target and draft" in refused("evaluate-demo", "--models", str(tmp_path))


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"]])
def test_help_does_not_import_torch(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom training.cli import main\n"
        f"sys.argv = ['outrider-train', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, timeout=30)
