"""`outrider service`: what it writes and says, with stand-ins for the programs that start services."""

import plistlib
import shlex
import subprocess
import sys
from dataclasses import replace

import pytest

from client import cli
from client.commands import service

SURROUNDINGS = {
    "XDG_CACHE_HOME": "/big/cache",
    "grpc_proxy": "",  # which says that there is none, whatever the others name
    "https_proxy": "http://me@proxy:3128",
    "http_proxy": "http://proxy:3129",
    "no_grpc_proxy": "gpu",
    "no_proxy": "10.0.0.0/8,.inside",
    "SSL_CERT_FILE": "/etc/ours.pem",
    "SSL_CERT_DIR": "/etc/ours",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": "/etc/100% ours.pem",
}


@pytest.fixture
def told(tmp_path, monkeypatch) -> list[list[str]]:
    """What the service manager was told, which succeeds."""
    told: list[list[str]] = []
    for variable in ("OUTRIDER_CACHE", "OUTRIDER_CONFIG"):  # of all tests
        monkeypatch.delenv(variable)
    for variable in SURROUNDINGS:  # of this machine
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(cli, "PROGRAM", replace(cli.PROGRAM, files=()))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(service.subprocess, "run", lambda command, **_: told.append(list(command)))
    monkeypatch.setattr(service, "_SYSTEMD_RUNS", tmp_path)
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


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_second_installation_takes_the_place_of_what_runs(told, monkeypatch, capsys, platform):
    monkeypatch.setattr(sys, "platform", platform)
    assert outrider(monkeypatch, capsys, "service", "install", "--server", "gpu:7070", "--tls")[0] == 0
    first = told[:]
    code, said = outrider(monkeypatch, capsys, "service", "install", "--server", "gpu:7071", "--tls")
    assert (code, "runs now" in said) == (0, True)
    stopped, *started = told[len(first) :]
    assert ("disable" in stopped and "--now" in stopped) or "bootout" in stopped
    assert started == first


def test_on_macos_one_that_had_ended_is_started_all_the_same(told, monkeypatch, capsys):
    def run(command, **_):
        told.append(list(command))
        if "bootout" in command:
            raise subprocess.CalledProcessError(3, command)

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(service.subprocess, "run", run)
    for _ in range(2):
        assert "runs now" in outrider(monkeypatch, capsys, "service", "install", "--server", "gpu:7070", "--tls")[1]
    assert told[-1][:2] == ["launchctl", "bootstrap"]
    assert outrider(monkeypatch, capsys, "service", "uninstall")[0] == 0


def test_what_could_not_be_stopped_is_kept(tmp_path, told, monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "linux")
    outrider(monkeypatch, capsys, "service", "install", "--server", "gpu:7070", "--tls")

    def fail(command, **_):
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(service.subprocess, "run", fail)
    code, said = outrider(monkeypatch, capsys, "service", "uninstall")
    assert (code, "stays as it was" in said) == (1, True)
    assert (tmp_path / "config" / "systemd" / "user" / "outrider.service").exists()


def test_where_systemd_does_not_run_only_the_file_goes(tmp_path, told, monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(service, "_SYSTEMD_RUNS", tmp_path / "none")
    outrider(monkeypatch, capsys, "service", "install", "--server", "gpu:7070", "--tls")
    told.clear()
    code, said = outrider(monkeypatch, capsys, "service", "uninstall")
    assert (code, "removed" in said, "stopped" in said) == (0, True, False)
    assert not told
    assert not (tmp_path / "config" / "systemd" / "user" / "outrider.service").exists()


def test_variables_of_this_shell_are_the_services_too(tmp_path, told, monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "linux")
    variables = {"SERVER": "gpu:7070", "TLS": "1", "CACHE": "here", "ALLOW_ORIGIN": "http://a http://b", "DRAFT": "a"}
    for name, value in variables.items():
        monkeypatch.setenv(f"OUTRIDER_{name}", value)
    assert outrider(monkeypatch, capsys, "service", "install", "--parallel", "2", "--draft", "b")[0] == 0
    words, seen = started_by(tmp_path)
    assert words == ["serve", "--parallel", "2", "--draft", "b"]
    assert seen == {f"OUTRIDER_{name}": value for name, value in variables.items() if name != "DRAFT"}


def test_proxies_authorities_and_the_cache_of_this_shell_are_the_services_too(tmp_path, told, monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "linux")
    for name, value in SURROUNDINGS.items():
        monkeypatch.setenv(name, value)
    assert outrider(monkeypatch, capsys, "service", "install", "--server", "gpu:7070", "--tls")[0] == 0
    told_percent = SURROUNDINGS["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"].replace("%", "%%")
    assert started_by(tmp_path)[1] == {**SURROUNDINGS, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": told_percent}


@pytest.mark.parametrize(
    "proxy", ["http://me:secret@proxy:3128", "me:secret@[proxy", "http://:secret@proxy", "http://me:secret//@proxy"]
)
def test_a_proxys_password_is_not_written_where_others_may_read_it(tmp_path, told, monkeypatch, capsys, proxy):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("https_proxy", proxy)
    code, said = outrider(monkeypatch, capsys, "service", "install", "--server", "gpu:7070", "--tls")
    assert (code, "https_proxy has a password" in said, "secret" in said) == (2, True, False)
    assert (told, list(tmp_path.iterdir())) == ([], [])


def test_the_file_that_a_variable_names_is_the_services_too(tmp_path, told, monkeypatch, capsys):
    """No flag says that TLS is off, and what an alias stands for is in the file."""
    monkeypatch.setattr(sys, "platform", "linux")
    (tmp_path / "c.toml").write_text('tls = true\n[aliases.work]\nserver = "127.0.0.1:7070"\nmodel = "small"\n')
    for name, value in {"CONFIG": "c.toml", "MODEL": "work", "TLS": "0"}.items():
        monkeypatch.setenv(f"OUTRIDER_{name}", value)
    monkeypatch.chdir(tmp_path)
    assert outrider(monkeypatch, capsys, "service", "install")[0] == 0
    words, seen = started_by(tmp_path)
    assert words == ["--config", str(tmp_path / "c.toml"), "serve"]
    assert seen == {"OUTRIDER_MODEL": "work", "OUTRIDER_TLS": "0"}


def started_by(home) -> tuple[list[str], dict[str, str]]:
    """The words behind the program and the variables, as the unit has them."""
    lines = (home / "config" / "systemd" / "user" / "outrider.service").read_text().splitlines()
    (_, *words), *variables = (
        shlex.split(line.partition("=")[2]) for line in lines if line.startswith(("ExecStart=", "Environment="))
    )
    return words, dict(variable.split("=", 1) for (variable,) in variables)


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
        (["--server", "gpu:7070", "--tls", "--token", "secret"], "give --token-file"),
        (["--server", "gpu:7070"], "in plain text; use --tls"),
        (["--server", "gpu:7070", "--tls", "--listen", "0.0.0.0:8080"], "--api-key-file"),
        (["--server", "gpu:7070", "--tls", "--token-file", "missing"], "missing"),
        (["--server", "gpu:7070", "--tls", "--temperature", "-3"], "temperature"),
        (["--server", "gpu:7070", "--tls", "--offline", "maybe"], "maybe"),
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
