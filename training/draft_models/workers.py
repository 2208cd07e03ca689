"""Training in one process or data-parallel in several.

What may live here: all use of `accelerate`. It may not know draft models, data or files.

Several processes are started by `accelerate launch` or `torchrun`, which set WORLD_SIZE; a single process needs
neither.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any, Protocol, TypeVar

import torch
from torch import nn

from common.models.placement import parse_device
from common.programs.extras import require_extra

T = TypeVar("T")

LONGEST_WAIT = timedelta(days=7)
"""How long a process waits for another. The first one makes the target's answers alone, which takes hours or days, and
measures alone; torch gives up after ten minutes with NCCL. A process that fails is noticed at once by the launcher."""


class Workers(Protocol):
    """The processes of a run, from the view of one of them. rank: from 0; rank 0 writes, measures and shows
    progress."""

    rank: int
    count: int
    device: torch.device

    def prepare(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, torch.optim.Optimizer]:
        """The module and the optimiser to use in place of those given."""
        ...

    def apart(self, module: nn.Module) -> AbstractContextManager[Any]:
        """Inside, gradients accumulate in each process without synchronisation."""
        ...

    def backward(self, loss: torch.Tensor) -> None: ...

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process; all must call it."""
        ...

    def sums(self, numbers: Sequence[int]) -> list[int]:
        """The sum of each number over all processes; all must call it."""
        ...

    def from_first(self, make: Callable[[], T]) -> T:
        """The result of `make` in rank 0, sent to every process."""
        ...


class OneWorker:
    """A single process."""

    rank = 0
    count = 1

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def prepare(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, torch.optim.Optimizer]:
        return module, optimizer

    def apart(self, module: nn.Module) -> AbstractContextManager[Any]:
        return nullcontext()

    def backward(self, loss: torch.Tensor) -> None:
        torch.autograd.backward(loss)

    def any(self, flag: bool) -> bool:
        return flag

    def sums(self, numbers: Sequence[int]) -> list[int]:
        return list(numbers)

    def from_first(self, make: Callable[[], T]) -> T:
        return make()


class ManyWorkers:
    """One of several processes, coordinated by `accelerate`."""

    def __init__(self, device: str | None) -> None:
        require_extra("train", "training in several processes")
        from accelerate import (  # type: ignore[import-untyped]
            Accelerator,
            DistributedDataParallelKwargs,
            InitProcessGroupKwargs,
        )

        # Some recipes draw which parameters a step trains.
        unused = DistributedDataParallelKwargs(find_unused_parameters=True)
        patient = InitProcessGroupKwargs(timeout=LONGEST_WAIT)
        # The run has its own dtype: `accelerate launch` would bring that of a machine's configuration in.
        self.accelerator: Any = Accelerator(
            cpu=device == "cpu", mixed_precision="no", kwargs_handlers=[unused, patient]
        )
        self.rank: int = self.accelerator.process_index
        self.count: int = self.accelerator.num_processes
        self.device: torch.device = self.accelerator.device

    def prepare(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, torch.optim.Optimizer]:
        prepared: tuple[nn.Module, torch.optim.Optimizer] = self.accelerator.prepare(module, optimizer)
        return prepared

    def apart(self, module: nn.Module) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = self.accelerator.no_sync(module)
        return context

    def backward(self, loss: torch.Tensor) -> None:
        self.accelerator.backward(loss)

    def any(self, flag: bool) -> bool:
        return self.sums([int(flag)])[0] > 0

    def sums(self, numbers: Sequence[int]) -> list[int]:
        summed: torch.Tensor = self.accelerator.reduce(torch.tensor(numbers, dtype=torch.int64, device=self.device))
        return [int(each) for each in summed]

    def from_first(self, make: Callable[[], T]) -> T:
        from accelerate.utils import broadcast_object_list  # type: ignore[import-untyped]

        made: list[Any] = [make() if self.rank == 0 else None]
        broadcast_object_list(made)
        result: T = made[0]
        return result

    def leave(self) -> None:
        """Close the connections and wait for their threads, which would abort a process that is ending."""
        self.accelerator.end_training()
        # The wrapped module holds the group, and so its threads, for as long as it is held itself.
        self.accelerator.free_memory()


@contextmanager
def gather_workers(device: str | None) -> Iterator[Workers]:
    """This process and its peers. device: where to train; None takes a GPU where there is one.

    Raises `CheckpointError` for a device that does not exist here.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield OneWorker(parse_device(device or ("cuda" if torch.cuda.is_available() else "cpu")))
        return
    workers = ManyWorkers(device)
    try:
        yield workers
    finally:
        workers.leave()
