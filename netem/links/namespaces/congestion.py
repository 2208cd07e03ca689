"""The TCP congestion control inside the namespaces of a link: checks its name and selects it."""

import subprocess
from pathlib import Path

from common.protocol.errors import MisuseError
from netem.links.namespaces.addresses import DEVICE, NETWORK

_SETTINGS = Path("/proc/sys/net/ipv4")


def check_congestion(name: str | None) -> str:
    """The name itself, or that of the system's congestion control for None.

    Raises MisuseError for one that this machine lacks.
    """
    if name is None:
        return _read("tcp_congestion_control")
    available = _read("tcp_available_congestion_control").split()
    if name not in available:
        raise MisuseError(f"there is no congestion control '{name}' here: choose one of {', '.join(available)}")
    return name


def use_congestion(name: str) -> None:
    """Selects it for every connection that crosses the link from this thread's namespace. Raises OSError where the
    system refuses.

    It is set on the route: the setting of a namespace accepts only what the host allows to every user.
    """
    try:
        subprocess.run(
            ["ip", "route", "replace", NETWORK, "dev", DEVICE, "congctl", name], check=True, capture_output=True
        )
    except (subprocess.CalledProcessError, FileNotFoundError) as refusal:
        raise OSError(0, f"`ip route` cannot choose the congestion control {name}") from refusal


def _read(setting: str) -> str:
    # Where there is no such file there are no namespaces either, and opening the link says so.
    path = _SETTINGS / setting
    return path.read_text(encoding="ascii").strip() if path.exists() else ""
