"""What becomes of an unexpected error: it is named in a log by what it is and where it arose, and ends one session at
most. Its own words may quote what a session holds, which no log may."""

import logging
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

_log = logging.getLogger(__name__)

Owner = TypeVar("Owner")
Answer = TypeVar("Answer")


class FaultIsolation(Generic[Owner]):
    """Whatever one session raises ends that session and no other: it is logged, with `when`, and `fail` is called."""

    def __init__(self, when: str, fail: Callable[[Owner], None]):
        self._when = when
        self._fail = fail

    @contextmanager
    def __call__(self, owner: Owner) -> Iterator[None]:
        """A context for what is done with one of them."""
        try:
            yield
        except Exception as error:
            self._failed(owner, error)

    def call_each(self, owners: Iterable[Owner], ask: Callable[[Owner], Answer]) -> list[tuple[Owner, Answer]]:
        """What each says; one that cannot be asked fails alone."""
        answers = []
        for owner in list(owners):
            # No context of its own: the engine asks everybody at every turn of its loop.
            try:
                answers.append((owner, ask(owner)))
            except Exception as error:
                self._failed(owner, error)
        return answers

    def _failed(self, owner: Owner, error: Exception) -> None:
        _log.error("a session failed %s: %s", self._when, describe_error(error))
        self._fail(owner)


def describe_error(error: BaseException) -> str:
    """Such as 'IndexError in target.py:51'."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
