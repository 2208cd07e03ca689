"""`outrider service`: has the system run `outrider serve` in the background for this user.

Knows where systemd and launchd look, and how they are told. What is in their files is `service_files.py`'s to say.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from client.service_files import LABEL, ServedCommand, launchd_plist, systemd_unit
from common.protocol.errors import MisuseError, OutriderError

_UNIT = "outrider.service"
_SYSTEMD_RUNS = Path("/run/systemd/system")
"""There where systemd started this machine, by sd_booted(3)."""


@dataclass(frozen=True, slots=True)
class _Manager:
    """How a system is told: its `file`, and the commands that start, stop and show the service, and show its log.
    `stop_may_fail`: those that stop it fail where it does not run. `is_there`: whether anything runs services here."""

    file: Path
    start: Sequence[Sequence[str]]
    stop: Sequence[Sequence[str]]
    show: Sequence[str]
    log: Sequence[str]
    stop_may_fail: bool = False
    is_there: bool = True


def install(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Writes the file for `outrider` with these words and variables, and starts the service if this session can, in
    place of one that was installed before. Raises MisuseError on a system without user services that are known here."""
    manager = _manager()
    earlier = manager.stop if manager.file.exists() else []
    command = ServedCommand([_program(), *words], Path.cwd(), environment)
    manager.file.parent.mkdir(parents=True, exist_ok=True)
    is_unit = manager.file.name == _UNIT
    manager.file.write_bytes(systemd_unit(command).encode() if is_unit else launchd_plist(command, _log_file()))
    typer.echo(f"wrote {manager.file}")
    is_stopped = _succeed(earlier) or manager.stop_may_fail
    if is_stopped and _succeed(manager.start):
        typer.echo(f"`outrider serve` runs now and after every login; its log: {' '.join(manager.log)}")
    else:
        typer.echo(f"start it in a session of your own with: {_written([*earlier, *manager.start], manager)}")


def uninstall() -> None:
    """Stops the service and removes its file. Raises MisuseError where there is none, OutriderError where this session
    cannot stop it."""
    manager = _manager()
    if not manager.file.exists():
        raise MisuseError(f"no service is installed: there is no {manager.file}")
    if manager.is_there and not (_succeed(manager.stop) or manager.stop_may_fail):
        raise OutriderError(
            "the service manager cannot be told from this session, so the service stays as it was; run "
            "`outrider service uninstall` in a session of your own"
        )
    manager.file.unlink()
    typer.echo(f"stopped, and removed {manager.file}" if manager.is_there else f"removed {manager.file}")


def show_status() -> bool:
    """Prints whether the service is installed and runs; whether it does."""
    manager = _manager()
    if not manager.file.exists():
        typer.echo("no service is installed; `outrider service install --server HOST:PORT` does it")
        return False
    runs = _succeed([manager.show])
    typer.echo(f"{manager.file}: {'running' if runs else 'not running'}; its log: {' '.join(manager.log)}")
    return runs


def _manager() -> _Manager:
    if sys.platform == "darwin":
        file = Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        domain = f"gui/{os.getuid()}"
        return _Manager(
            file,
            start=[["launchctl", "bootstrap", domain, str(file)]],
            stop=[["launchctl", "bootout", f"{domain}/{LABEL}"]],
            show=["launchctl", "print", f"{domain}/{LABEL}"],
            log=["tail", "-f", str(_log_file())],
            stop_may_fail=True,
        )
    if sys.platform == "linux":
        configured = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        systemctl = ["systemctl", "--user"]
        return _Manager(
            configured / "systemd" / "user" / _UNIT,
            start=[[*systemctl, "daemon-reload"], [*systemctl, "enable", "--now", _UNIT]],
            stop=[[*systemctl, "disable", "--now", _UNIT]],
            show=[*systemctl, "--quiet", "is-active", _UNIT],
            log=["journalctl", "--user", "-fu", _UNIT],
            is_there=_SYSTEMD_RUNS.is_dir(),
        )
    raise MisuseError("services are installed on Linux with systemd and on macOS; run `outrider serve` by other means")


def _log_file() -> Path:
    return Path.home() / "Library" / "Logs" / "outrider.log"


def _program() -> str:
    """The path of this program."""
    started = Path(sys.argv[0]).absolute()
    return str(started) if started.is_file() and os.access(started, os.X_OK) else shutil.which("outrider") or "outrider"


def _succeed(commands: Sequence[Sequence[str]]) -> bool:
    """Whether all of these commands succeeded."""
    for command in commands:
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return False
    return True


def _written(commands: Sequence[Sequence[str]], manager: _Manager) -> str:
    return ("; " if manager.stop_may_fail else " && ").join(" ".join(command) for command in commands)
