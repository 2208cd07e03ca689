"""llama.cpp's server as a program: where it is, and what it says of its build. Runs no server."""

import shutil
import subprocess
from pathlib import Path

from common.protocol.errors import MisuseError

LLAMA_SERVER = "llama-server"


def find_llama_server(given: Path | None) -> Path:
    """The program that was named, or the one on PATH. Raises MisuseError where there is none."""
    found = shutil.which(LLAMA_SERVER if given is None else given)
    if found is None:
        place = "on PATH" if given is None else f"at {given}"
        raise MisuseError(
            f"there is no {LLAMA_SERVER} {place}; build it from llama.cpp and name it with --llama-server"
        )
    return Path(found)


def version_of(program: Path) -> str:
    """What llama.cpp's server says of its build."""
    said = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False)
    lines = (said.stderr + said.stdout).splitlines()
    return next((line for line in lines if line.startswith("version")), "unknown")
