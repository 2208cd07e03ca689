"""The steps of a run that are finished, in a file beside its results, so that a run that was broken off goes on with
the next. Knows no experiment.

A run is deterministic in the order of its steps: a step is known by its name and its place in that order.
"""

import pickle
from collections.abc import Callable
from os import SEEK_END
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")

UNFINISHED = "unfinished.pickle"


class Steps:
    """Of a run that does not outlive its process."""

    def find(self, name: str) -> Any:
        """What the next step came to, if it has this name and is finished; else None, and it is to be kept next."""
        return None

    def keep(self, name: str, result: Result) -> Result:
        return result

    def once(self, name: str, compute: Callable[[], Result]) -> Result:
        """What a step comes to, which is never None."""
        found: Result | None = self.find(name)
        return self.keep(name, compute()) if found is None else found


class StepFile(Steps):
    """`origin` says of what source, models and options the steps are: those of another go when the first is kept. It is
    a file of pickles, which run what they hold: it must be the user's own, as the folder of results is."""

    def __init__(self, path: Path, origin: Any, clock: Callable[[], float]):
        """Raises OSError where the file cannot be written."""
        path.touch()
        self._path, self._clock, self._origin = path, clock, origin
        self._file = path.open("r+b")
        self._is_ours = self._next() == origin
        self._earlier_s = 0.0
        self._began_s = clock()

    @property
    def seconds(self) -> float:
        """That the run has taken, those of its earlier beginnings included as far as steps were finished."""
        return self._earlier_s + self._clock() - self._began_s

    def find(self, name: str) -> Any:
        if not self._is_ours:
            return None
        at = self._file.tell()
        match self._next():
            case (found, result, seconds) if found == name:
                self._earlier_s, self._began_s = seconds, self._clock()
                return result
        self._file.seek(at)
        self._file.truncate()
        return None

    def keep(self, name: str, result: Result) -> Result:
        if not self._is_ours:
            self._file.seek(0)
            self._file.truncate()
            self._append(self._origin)
            self._is_ours = True
        self._append((name, result, self.seconds))
        return result

    def close(self) -> None:
        """Leaves no empty file."""
        is_empty = not self._file.seek(0, SEEK_END)
        self._file.close()
        if is_empty:
            self.forget()

    def forget(self) -> None:
        """What a run that is finished does."""
        self._path.unlink(missing_ok=True)

    def _next(self) -> Any:
        try:
            return pickle.load(self._file)
        except Exception:  # whatever the end of a file says, or half a step
            return None

    def _append(self, record: Any) -> None:
        pickle.dump(record, self._file)
        self._file.flush()
