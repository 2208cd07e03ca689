"""The process group of a target's ranks: joining it, and what they send each other beside what transformers sends.

All use of torch.distributed is here. Gloo carries commands on every device, so that waiting for one keeps no GPU busy.
It may not know commands, targets or how ranks were started.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.distributed import distributed_c10d

from server.fault_isolation import FatalError
from server.rank_info import LOCAL_RANK, RankInfo

LOADING_S = 1800.0
"""How long a rank waits for another one while targets are loaded: disks and downloads differ."""

SILENCE_S = 30.0
"""And afterwards. A process that ends is noticed at once; this is for one that hangs."""

_FIRST = 1024
"""Numbers of the first tensor of a message, which is the only one of most passes."""


class RanksBrokenError(FatalError):
    """The ranks cannot go on together."""


class Group:
    """Raises RanksBrokenError wherever another rank cannot be reached in time. A process has one until it ends."""

    def __init__(self, rank_info: RankInfo, device: str, store: str = ""):
        """Waits for all ranks. They meet at the file `store`, or where torchrun says."""
        self.rank, self.ranks = rank_info.rank, rank_info.ranks
        if device == "cuda":
            # transformers does so too, but not before the device is asked for its memory.
            torch.accelerator.set_device_index(int(os.environ.get(LOCAL_RANK, "0")))
        backend = "gloo" if device == "cpu" else f"cpu:gloo,{device}:nccl"
        where: dict[str, Any] = {}
        if store:
            file = dist.FileStore(store, rank_info.ranks)  # type: ignore[attr-defined]
            where = {"store": file, "rank": rank_info.rank, "world_size": rank_info.ranks}
        with _broken_is_told():
            dist.init_process_group(backend, timeout=timedelta(seconds=LOADING_S), **where)

    def expect_answers_soon(self) -> None:
        """From now on a rank that does not answer for `SILENCE_S` counts as gone."""
        for group in list(distributed_c10d._world.pg_map):
            distributed_c10d._set_pg_timeout(timedelta(seconds=SILENCE_S), group)

    def send(self, numbers: NDArray[np.int64]) -> None:
        """To all other ranks."""
        first = np.zeros(_FIRST, dtype=np.int64)
        first[0] = len(numbers)
        first[1 : 1 + len(numbers)] = numbers[: _FIRST - 1]
        with _broken_is_told():
            dist.broadcast(torch.from_numpy(first), 0)
            if len(numbers) >= _FIRST:
                dist.broadcast(torch.from_numpy(numbers[_FIRST - 1 :].copy()), 0)

    def receive(self) -> NDArray[np.int64]:
        """What rank 0 sends next."""
        first = torch.empty(_FIRST, dtype=torch.int64)
        with _broken_is_told():
            dist.broadcast(first, 0)
            missing = int(first[0]) - (_FIRST - 1)
            if missing <= 0:
                return first[1 : 1 + int(first[0])].numpy()
            rest = torch.empty(missing, dtype=torch.int64)
            dist.broadcast(rest, 0)
        return torch.cat([first[1:], rest]).numpy()

    def gather(self, part: torch.Tensor) -> list[torch.Tensor]:
        """Every rank's part in rank 0, by rank; nothing elsewhere."""
        parts = [torch.empty_like(part) for _ in range(self.ranks)] if self.rank == 0 else []
        with _broken_is_told():
            dist.gather(part.contiguous(), parts or None, 0)
        return parts

    def meet(self) -> None:
        """Returns once all ranks have come here."""
        with _broken_is_told():
            dist.all_reduce(torch.zeros(1))


@contextmanager
def _broken_is_told() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise RanksBrokenError("another rank of the target cannot be reached; start the server again") from error
