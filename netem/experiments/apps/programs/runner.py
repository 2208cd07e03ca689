"""Runs what one app does, and writes a line of JSON for each. It may not know which app that is, or what is right.

`python runner.py MODULE URL`. The lines have `kind`, `name`, `seconds`, `got` or `error`, and `status`, that of HTTP.
"""

import importlib
import importlib.util
import json
import shutil
import signal
import sys
import time
from types import FrameType
from typing import Any

_MOST_SECONDS = 600
"""Longer than aider asks for in vain: nine times 40 s, in which OpenAI's client asks three times, and pauses of 64 s
between them."""

_MOST_CHARACTERS = 600
MISSING = {"kind": "missing", "name": ""}


def main(name: str, url: str) -> None:
    if not _is_installed(name):
        _tell(MISSING)
        return
    app = importlib.import_module(name)
    signal.signal(signal.SIGALRM, _too_long)
    for kind in ("TEXT", "DATA", "EDITS"):
        for check, act in getattr(app, kind, {}).items():
            began = time.monotonic()
            signal.alarm(_MOST_SECONDS)
            try:
                found: dict[str, Any] = {"got": str(act(url))[:_MOST_CHARACTERS]}
            except Exception as error:  # whatever an app raises is what is looked for
                found = {"error": f"{type(error).__name__}: {error}"[:_MOST_CHARACTERS], "status": _status_of(error)}
            signal.alarm(0)
            _tell({"kind": kind, "name": check, "seconds": round(time.monotonic() - began, 2), **found})


def _is_installed(name: str) -> bool:
    """Read and not imported, because that would import the app."""
    spec = importlib.util.find_spec(name)
    assert spec is not None, name
    assert spec.origin is not None, name
    with open(spec.origin, encoding="utf-8") as file:
        needs = next(line.split('"')[1] for line in file if line.startswith("NEEDS"))
    return importlib.util.find_spec(needs) is not None or shutil.which(needs) is not None


def _status_of(error: BaseException) -> int | None:
    return getattr(error, "status_code", None)


def _too_long(_: int, __: FrameType | None) -> None:
    raise TimeoutError(f"no answer in {_MOST_SECONDS} s")


def _tell(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
