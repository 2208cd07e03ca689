"""`outrider service`: what it writes and says, with stand-ins for the programs that start services."""

import plistlib
import sys

import pytest

from client import cli
from client.commands import service


@pytest.fixture
def told(tmp_path, monkeypatch) -> list[list[str]]:
    """What the service manager was told, which succeeds."""
    told: list[list[str]] = []
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(service.subprocess, "run", lambda command, **_: told.append(list(command)))
    return told


def outrider(monkeypatch, capsys, *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["outrider", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    written = capsys.readouterr()
    return int(ended.value.code or 0), written.out + written.err


def test_a_service_is_installed_shown_and_removed(tmp_path, told, monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "linux")
    unit = tmp_path / "config" / "systemd" / "user" / "outrider.service"
    assert outrider(monkeypatch, capsys, "service", "status")[0] == 1
    code, said = outrider(monkeypatch, capsys, "service", "install", "--server", "gpu:7070", "--tls")
    assert (code, str(unit) in said, "runs now" in said) == (0, True, True)
    assert '"serve" "--server" "gpu:7070" "--tls"' in unit.read_text()
    assert told[-1] == ["systemctl", "--user", "enable", "--now", "outrider.service"]
    assert outrider(monkeypatch, capsys, "service", "status")[0] == 0
    assert outrider(monkeypatch, capsys, "service", "uninstall")[0] == 0
    assert not unit.exists()
    assert outrider(monkeypatch, capsys, "service", "uninstall")[0] == 2


def test_on_macos_it_is_an_agent(tmp_path, told, monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert outrider(monkeypatch, capsys, "service", "install", "--server", "gpu:7070", "--tls")[0] == 0
    held = plistlib.loads((tmp_path / "Library/LaunchAgents/io.outrider.serve.plist").read_bytes())
    assert held["ProgramArguments"][1:] == ["serve", "--server", "gpu:7070", "--tls"]
    assert told[-1][:2] == ["launchctl", "bootstrap"]


def test_where_the_manager_cannot_be_told_a_person_is(told, monkeypatch, capsys):
    def fail(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(service.subprocess, "run", fail)
    code, said = outrider(monkeypatch, capsys, "service", "install", "--server", "gpu:7070", "--tls")
    assert code == 0
    assert "systemctl --user daemon-reload && systemctl --user enable --now outrider.service" in said
    assert outrider(monkeypatch, capsys, "service", "status")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--tls"], "Missing option '--server'"),
        (["--server", "gpu:7070", "--offlin", "refuse"], "No such option: --offlin"),
        (["--server", "gpu:7070", "--token", "secret"], "give --token-file"),
    ],
)
def test_what_serve_would_not_take_is_not_installed(tmp_path, told, monkeypatch, capsys, arguments, says):
    monkeypatch.setattr(sys, "platform", "linux")
    code, said = outrider(monkeypatch, capsys, "service", "install", *arguments)
    assert (code, says in said, told, list(tmp_path.iterdir())) == (2, True, [], [])


def test_elsewhere_there_is_none(told, monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "win32")
    code, said = outrider(monkeypatch, capsys, "service", "install", "--server", "gpu:7070", "--tls")
    assert (code, "on Linux with systemd and on macOS" in said) == (2, True)
