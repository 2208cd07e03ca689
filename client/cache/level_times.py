"""How long a drafted level of each draft model takes on this machine, from when it was timed: timing one loads it.

One file beside the bundles. Knows no models; a file that cannot be read or written is no fault.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path

from common.atomic import atomic_file

_FILE = "level-times.json"


class LevelTimes:
    def __init__(self, cache: Path):
        self._file = cache / _FILE

    def of(self, key: str, measure: Callable[[], float]) -> float:
        """The seconds kept under `key`, else what `measure` returns, which is kept."""
        kept = self._read()
        if key not in kept:
            kept[key] = measure()
            self._write(kept)
        return kept[key]

    def _read(self) -> dict[str, float]:
        try:
            content = json.loads(self._file.read_text(encoding="utf-8"))
            times = {str(key): math.inf if seconds is None else float(seconds) for key, seconds in content.items()}
            return {key: seconds for key, seconds in times.items() if seconds > 0}
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return {}

    def _write(self, kept: dict[str, float]) -> None:
        written = {key: seconds if math.isfinite(seconds) else None for key, seconds in kept.items()}  # JSON's infinity
        try:
            with atomic_file(self._file) as file:
                file.write(json.dumps(written, indent=2).encode() + b"\n")
        except OSError:
            return
