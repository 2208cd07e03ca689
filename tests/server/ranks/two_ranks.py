"""Code as rank 0 of two, beside a real second rank, both forked from a process that has imported everything."""

import os
import pickle
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch

from server.rank_info import RankInfo
from server.ranks.follower import follow
from server.ranks.lead import Lead
from tests.programs import FORKS

Result = TypeVar("Result")


@dataclass(frozen=True)
class AlreadyStarted:
    """In place of `ChildRanks`: the test has started the second rank."""

    store: str

    def expect_end(self) -> None: ...

    def kill(self) -> None: ...

    def close(self) -> None: ...


def as_rank_0(work: Callable[..., Result], *arguments: Any) -> Result:
    """The result of `work(lead, *arguments)`; both functions and values are pickled. Raises what it raises."""
    ours, theirs = FORKS.Pipe()
    with TemporaryDirectory() as folder:
        store = str(Path(folder) / "ranks")
        first = FORKS.Process(target=_lead, args=(store, theirs, work, arguments), daemon=True)
        second = FORKS.Process(target=_follow, args=(store,), daemon=True)
        for process in (first, second):
            process.start()
        theirs.close()
        try:
            succeeded, result = pickle.loads(ours.recv_bytes())
            if not succeeded:
                raise result
            second.join()
            assert second.exitcode == 0
            found: Result = result
            return found
        finally:
            for process in (first, second):
                process.kill()
                process.join()


def _follow(store: str) -> None:
    torch.set_num_threads(1)
    follow(RankInfo(1, 2, 2), "cpu", store)


def _lead(store: str, results: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    try:
        with closing(Lead(RankInfo(0, 2, 2), lambda *_: AlreadyStarted(store))) as lead:
            result = work(lead, *arguments)
        told = True, result
    except Exception as error:
        told = False, error
    # Not by `send`, which would share memory of a process that has ended when it is read.
    results.send_bytes(pickle.dumps(told))
    os._exit(0)  # threads of the group need the interpreter while it shuts down
