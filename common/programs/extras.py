"""What Outrider's extras bring beyond what a laptop needs, and the sentence for where one is not installed.

Called before anything of an extra is imported; it imports nothing of them itself.
"""

import shlex
import sys
from collections.abc import Mapping
from importlib.util import find_spec

from common.protocol.errors import MisuseError

_SERVER = ("grpc_reflection", "prometheus_client")

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "server": _SERVER,
    "lab": (*_SERVER, "matplotlib", "openai", "psutil"),
    "train": ("accelerate",),
}
"""The modules that programs import of each, as pyproject.toml has the extras."""


def require_extra(extra: str, wanted: str) -> None:
    """Raises MisuseError, with the command that installs the extra, where `wanted`, in words, lacks a module of it."""
    missing = [module for module in EXTRAS[extra] if find_spec(module) is None]
    if missing:
        lacking = ", ".join(missing)
        raise MisuseError(f"{wanted} needs what is not installed ({lacking}): run `{_install(extra)}`")


def _install(extra: str) -> str:
    """For the environment that this program runs in, which is seldom the active one; uv's have no pip of their own."""
    python = shlex.quote(sys.executable)
    pip = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    return f"{pip} 'outrider[{extra}]'"
