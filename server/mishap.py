"""What becomes of an unexpected error: it is named in a log by what it is and where it arose, and ends one session at
most. Its own words may quote what a session holds, which no log may."""

import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

_log = logging.getLogger(__name__)

Owner = TypeVar("Owner")

Alone = Callable[[Owner], AbstractContextManager[None]]
"""A context in which whatever is raised ends that owner's session and no other."""


@contextmanager
def failing_alone(when: str, fail: Callable[[], None]) -> Iterator[None]:
    """Whatever is raised within is logged, and then `fail` ends the one session that it belongs to."""
    try:
        yield
    except Exception as error:
        _log.error("a session failed %s: %s", when, named(error))
        fail()


def named(error: BaseException) -> str:
    """Such as 'IndexError in target.py:51'."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
