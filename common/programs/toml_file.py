"""A TOML file that a person wrote, as plain data. It may not know what it should say."""

import tomllib
from pathlib import Path
from typing import Any

from common.protocol.errors import MisuseError


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """`what` names the file for people. Raises MisuseError where it cannot be read or is not valid."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MisuseError(f"the {what} {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise MisuseError(f"the {what} {path} is not valid TOML: {error}") from error
