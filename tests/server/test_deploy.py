"""What is shipped to run a server: a systemd unit and an image that holds what is needed."""

import configparser
import shutil
from pathlib import Path
from subprocess import run

import pytest

from server.cli_options import SessionRequest
from tests.programs import command

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = DEPLOY / "outriderd.service"
PROGRAM = "/opt/outrider/.venv/bin/outriderd"


def service() -> configparser.SectionProxy:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNIT)
    return unit["Service"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(PROGRAM, command("outriderd")))
    assert unit.read_text() != UNIT.read_text()
    checked = run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_systemd_waits_until_the_server_has_drained() -> None:
    assert float(service()["TimeoutStopSec"]) >= SessionRequest().drain_seconds + 10


def test_what_an_operator_got_wrong_is_not_tried_again() -> None:
    assert service()["RestartPreventExitStatus"] == "2"


def test_the_image_is_made_of_every_package_and_the_shipped_models() -> None:
    root = DEPLOY.parent
    kept = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")]
    assert {"client", "common", "netem", "server", "training", "models/demo"} <= set(kept)
    assert [name for name in kept if not (root / name).exists()] == []
