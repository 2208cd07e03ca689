"""Code as rank 0 of two, beside a real second rank, in processes that meet as torchrun's do. They are forked from one
that has imported everything."""

import os
import socket
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

import torch

from server.ranks.follower import follow
from server.ranks.lead import Lead
from server.ranks.place import find_place
from tests.programs import FORKS

Result = TypeVar("Result")


def as_rank_0(work: Callable[..., Result], *arguments: Any) -> Result:
    """The result of `work(lead, *arguments)`; both functions and values are pickled. Raises what it raises."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ours, theirs = FORKS.Pipe()
    first = FORKS.Process(target=_lead, args=(port, theirs, work, arguments), daemon=True)
    second = FORKS.Process(target=_follow, args=(port,), daemon=True)
    for process in (first, second):
        process.start()
    theirs.close()
    try:
        succeeded, result = ours.recv()
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


def _enter(rank: int, port: int) -> None:
    import faulthandler; faulthandler.dump_traceback_later(40, file=open(f"/tmp/tensor/stack{rank}","w"))
    """The environment that torchrun gives."""
    torch.set_num_threads(1)
    known = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": port}
    os.environ.update({name: str(number) for name, number in known.items()}, MASTER_ADDR="127.0.0.1")


def _follow(port: int) -> None:
    _enter(1, port)
    follow(find_place(None, os.environ), "cpu")


def _lead(port: int, results: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    _enter(0, port)
    try:
        with closing(Lead(find_place(None, os.environ))) as lead:
            result = work(lead, *arguments)
        results.send((True, result))
    except Exception as error:
        results.send((False, error))
    os._exit(0)  # threads of the group need the interpreter while it shuts down
