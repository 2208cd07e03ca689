"""The files by which a system runs `outrider serve` in the background for one user: a systemd user unit, and a launchd
property list.

Pure: text from a command. It may not know where anything is, or run anything.
"""

import plistlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LABEL = "io.outrider.serve"
"""The name by which launchd knows the service."""

_RESTART_S = 5


@dataclass(frozen=True, slots=True)
class ServedCommand:
    """The words of the command, the folder in which relative paths among them are meant, and the variables that it
    sees besides the system's."""

    words: Sequence[str]
    folder: Path
    environment: Mapping[str, str]


def systemd_unit(command: ServedCommand) -> str:
    """A unit that is started at login, and again when it fails. Quoted as systemd.service(5) and systemd.syntax(7)
    say."""
    return "\n".join(
        (
            "[Unit]",
            "Description=Outrider: a large model far away, as an endpoint on this machine",
            "",
            "[Service]",
            f"ExecStart={' '.join(_quoted(word).replace('$', '$$') for word in command.words)}",
            *(f"Environment={_quoted(f'{name}={value}')}" for name, value in command.environment.items()),
            # The minus: a folder that is gone by then is no reason not to start.
            f"WorkingDirectory=-{str(command.folder).replace('%', '%%')}",
            "Restart=on-failure",
            f"RestartSec={_RESTART_S}",
            "",
            "[Install]",
            "WantedBy=default.target",
            "",
        )
    )


def launchd_plist(command: ServedCommand, log: Path) -> bytes:
    """An agent that is started at login, and again when it fails; what it prints goes to `log`."""
    return plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": list(command.words),
            "EnvironmentVariables": dict(command.environment),
            "WorkingDirectory": str(command.folder),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": _RESTART_S,
            "StandardOutPath": str(log),
            "StandardErrorPath": str(log),
        }
    )


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return '"' + escaped.replace("%", "%%") + '"'
