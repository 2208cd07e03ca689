"""Unexpected errors: each ends one session at most, and is logged by its type and its place in the code. Its message is
not logged, because it may quote text or tokens."""

import logging
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar

from common.protocol.errors import OutriderError

_log = logging.getLogger(__name__)

Owner = TypeVar("Owner")
Answer = TypeVar("Answer")


class FatalError(OutriderError):
    """What is no session's fault and what no session can outlive: the daemon ends with this sentence."""


class FaultIsolation(Generic[Owner]):
    """An exception of one session ends this session and no other: it is logged with `when`, and `fail` is called."""

    def __init__(self, when: str, fail: Callable[[Owner], None]):
        self._when = when
        self._fail = fail

    def __call__(self, owner: Owner) -> AbstractContextManager[None]:
        """A context for what is done for one owner."""
        return _Context(self._failed, owner)

    def call_each(self, owners: Iterable[Owner], ask: Callable[[Owner], Answer]) -> list[tuple[Owner, Answer]]:
        """Each owner with the result of `ask`; an owner for which it raises fails and is left out."""
        answers = []
        for owner in list(owners):
            # No context of its own: the engine asks everybody at every turn of its loop.
            try:
                answers.append((owner, ask(owner)))
            except Exception as error:
                self._failed(owner, error)
        return answers

    def call_together(
        self, owners: Sequence[Owner], ask: Callable[[Sequence[Owner]], Sequence[Answer]]
    ) -> list[tuple[Owner, Answer]]:
        """As `call_each`, where all are asked at once; one by one where that raises. `ask` must leave everything as it
        was where it raises. A fault that nobody has alone is logged once."""
        try:
            return list(zip(owners, ask(owners), strict=True))
        except Exception as error:
            answers = self.call_each(owners, lambda owner: ask([owner])[0])
            if len(answers) == len(owners):
                _log_joint_fault(self._when, describe_error(error))
            return answers

    def _failed(self, owner: Owner, error: Exception) -> None:
        _log.error("a session failed %s: %s", self._when, describe_error(error))
        self._fail(owner)


class _Context(Generic[Owner]):
    """As `contextlib.contextmanager` would make it, in a fifth of the time; each pass enters it twice a session."""

    __slots__ = ("_failed", "_owner")

    def __init__(self, failed: Callable[[Owner, Exception], None], owner: Owner):
        self._failed = failed
        self._owner = owner

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, Exception):
            self._failed(self._owner, error)
        return isinstance(error, Exception)


@cache  # it may come with every pass
def _log_joint_fault(when: str, error: str) -> None:
    _log.error("sessions failed together, but none alone, %s; that may cost each pass time: %s", when, error)


def describe_error(error: BaseException) -> str:
    """Such as 'IndexError in target.py:51'."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
