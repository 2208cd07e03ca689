"""The modules of Outrider's extras, and the error that says how to install an extra that is missing.

Called before a module of an extra is imported; it imports none of them itself.
"""

import shlex
import sys
from collections.abc import Mapping
from importlib.util import find_spec

from common.protocol.errors import MisuseError

_SERVER = ("grpc_reflection", "prometheus_client")

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "server": _SERVER,
    "store": (*_SERVER, "redis"),
    "fleet": (*_SERVER, "ray", "redis"),
    "lab": (*_SERVER, "gguf", "jsonschema", "matplotlib", "openai", "psutil"),
    "train": ("accelerate",),
}
"""The modules of each extra that our programs import; pyproject.toml names their packages."""


def require_extra(extra: str, wanted: str) -> None:
    """Raises MisuseError, with the command that installs the extra, if a module is missing that `wanted` (in words)
    needs."""
    missing = [module for module in EXTRAS[extra] if find_spec(module) is None]
    if missing:
        names = ", ".join(missing)
        raise MisuseError(f"{wanted} needs modules that are not installed ({names}): {_install(extra)}")


def _install(extra: str) -> str:
    """For the environment of this program, which is often not the active one; uv's have no pip. It names a path, for
    the project is on no index, where its bare name may be another's."""
    python = shlex.quote(sys.executable)
    pip = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    return f"run `{pip} '.[{extra}]'` in a clone of Outrider, or with the path of the wheel in place of the dot"
