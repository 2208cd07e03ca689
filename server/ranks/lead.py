"""Rank 0 of a tensor-parallel server: its targets tell the other ranks what they are about to compute.

It may not know sessions, nor how ranks are started.
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

import torch

from common.models.checkpoint import load_config
from common.models.errors import CheckpointError
from common.models.families import key_width
from common.models.key_values import KeyValuePool
from common.models.packed import PackedModel, PassOutput
from common.models.plan import plan_pass
from common.models.quantised import method_of
from common.models.segment import PassInput
from common.models.source import CONFIG, read_json
from common.models.tensor_parallel import check_parts
from common.protocol.errors import OutriderError
from server.fault_isolation import describe_error
from server.models.target_loader import load_target
from server.passes.target import Target
from server.rank_info import RankInfo, check_devices
from server.ranks.commands import Beat, Command, Load, Move, Read, Run, Serve, Stop, encode
from server.ranks.group import SILENCE_S, Group, RanksBrokenError
from server.ranks.launch import ChildRanks

_BEAT_S = 1.0
_EXPLAINED_S = 2.0
"""How long a broken connection waits for the news which rank ended."""
_GRACE_S = 5.0
"""After which a daemon ends that lost a rank, if it cannot end in good order: a collective on a GPU may hang."""


class StartedRanks(Protocol):
    """Ranks that this process started; `ChildRanks` says more."""

    @property
    def store(self) -> str: ...

    def expect_end(self) -> None: ...

    def kill(self) -> None: ...

    def close(self) -> None: ...


class Lead:
    """Tells one command at a time, and executes it meanwhile: all ranks run the same commands in the same order."""

    def __init__(
        self, rank_info: RankInfo, start: Callable[[int, str, Callable[[str], object]], StartedRanks] = ChildRanks
    ):
        """The other ranks are started by `start`, or waited for, when there is something to load."""
        self._rank_info = rank_info
        self._start = start
        self._turn = threading.Lock()
        self._busy_since: float | None = None
        self._lost: RanksBrokenError | None = None
        self._is_lost = threading.Event()
        self._targets = 0
        self._children: StartedRanks | None = None
        self._group: Group | None = None

    @property
    def group(self) -> Group:
        assert self._group is not None, "no target is loaded"
        return self._group

    def load_target(self, path: str, **arguments: Any) -> Target:
        """`load_target` in every rank. Raises CheckpointError as that does, and where ranks rule something out."""
        device, ranks = arguments["device"], self._rank_info.ranks
        check_devices(self._rank_info, device, torch.cuda.device_count())
        config = load_config(Path(path))
        check_parts(config, ranks, method_of(read_json(Path(path) / CONFIG)) or arguments["quantise"])
        if arguments["batch_invariant"]:
            raise CheckpointError(
                "a sum over ranks may depend on how many tokens share a pass; leave out --batch-invariant or "
                "--tensor-parallel"
            )
        if device == "cpu" and not arguments["threads"]:
            arguments["threads"] = max(1, torch.get_num_threads() // self._rank_info.local)
        if self._group is None:
            self._join(device)
        arguments = {"path": path, "ranks": ranks, **arguments}
        make_model = partial(LeadModel, lead=self, number=self._targets)
        self._targets += 1
        with self.telling(Load(arguments)):
            return load_target(**arguments, make_model=make_model)

    def _join(self, device: str) -> None:
        if self._rank_info.is_launched:
            self._group = Group(self._rank_info, device)
            return
        self._children = self._start(self._rank_info.ranks, device, self._lose)
        self._group = Group(self._rank_info, device, self._children.store)

    @contextmanager
    def telling(self, command: Command) -> Iterator[None]:
        """Sends the command; inside the block, this rank's part of it is executed.

        Raises RanksBrokenError where another rank is gone, and for any fault after which ranks may be out of step.
        """
        with self._turn:
            if self._lost is not None:
                raise self._lost
            self._busy_since = time.monotonic()
            try:
                self.group.send(encode(command))
                yield
            except Exception as error:
                is_broken = isinstance(error, RanksBrokenError) or self._is_lost.is_set()
                if isinstance(error, OutriderError) and not is_broken:
                    raise
                self._is_lost.wait(_EXPLAINED_S)
                raise self._lose(
                    str(error)
                    if isinstance(error, RanksBrokenError)
                    else f"the ranks of the target are out of step after {describe_error(error)}; start it again"
                ) from error
            finally:
                self._busy_since = None

    async def watch(self) -> None:
        """Looks after the other ranks while the daemon serves. Ends by RanksBrokenError when one is gone."""
        await asyncio.to_thread(self._serve)
        beat: asyncio.Future[None] | None = None
        while self._lost is None:
            await asyncio.sleep(_BEAT_S)
            busy_since = self._busy_since
            if busy_since is not None and time.monotonic() - busy_since > SILENCE_S + _GRACE_S:
                self._lose("a rank of the target hangs; start the server again")
            elif busy_since is None and (beat is None or beat.done()):
                # Not waited for: a pass that has begun meanwhile comes first, and may hang.
                beat = asyncio.ensure_future(asyncio.to_thread(self._beat))
        raise self._lost

    def _serve(self) -> None:
        with self.telling(Serve()):
            self.group.expect_answers_soon()

    def _beat(self) -> None:
        # Of a loss, `watch` tells.
        with suppress(RanksBrokenError), self.telling(Beat()):
            self.group.meet()

    def _lose(self, sentence: str) -> RanksBrokenError:
        """The error that ends the daemon, which tells of the first loss."""
        if self._lost is None:
            self._lost = RanksBrokenError(sentence)
            self._is_lost.set()
            end = threading.Timer(_GRACE_S, self._end_at_once, (sentence,))
            end.daemon = True
            end.start()
        return self._lost

    def _end_at_once(self, sentence: str) -> None:
        sys.stderr.write(f"outriderd: {sentence}\n")
        sys.stderr.flush()
        self.kill()
        os._exit(1)

    def kill(self) -> None:
        """Ends the other ranks of this machine at once. One that hangs would keep its memory of the GPU."""
        if self._children is not None:
            self._children.kill()

    def close(self) -> None:
        """Ends the other ranks."""
        if self._children is not None:
            self._children.expect_end()
        if self._group is not None:
            with suppress(RanksBrokenError), self.telling(Stop()):
                pass
        if self._children is not None:
            self._children.close()


class LeadModel(PackedModel):
    """The packed model of rank 0: the others run the same passes on their parts."""

    def __init__(self, *arguments: Any, lead: Lead, number: int, **options: Any):
        """`number`: of the target, in the order in which they are loaded. The rest is `PackedModel`'s."""
        super().__init__(*arguments, **options)
        self._lead, self._number = lead, number
        self.pool = LeadPool.of(self.pool, lead, number, key_width(self.model.config))

    def forward(self, segments: Sequence[PassInput]) -> PassOutput:
        # What contradicts itself is refused before the others hear of it.
        plan_pass(segments, self._limits)
        with self._lead.telling(Run(self._number, segments)):
            return super().forward(segments)


@dataclass(frozen=True, eq=False, kw_only=True)
class LeadPool(KeyValuePool):
    """The pool of rank 0, with its own heads' keys and values. Hidden states are whole in every rank."""

    lead: Lead
    number: int
    whole_width: int
    """X of all ranks' heads together."""

    @classmethod
    def of(cls, pool: KeyValuePool, lead: Lead, number: int, whole_width: int) -> Self:
        held = {field.name: getattr(pool, field.name) for field in fields(pool)}
        return cls(**held, lead=lead, number=number, whole_width=whole_width)

    @property
    def widths(self) -> set[int]:
        """Of all ranks' heads together. A family whose attention is not divided has all of them in every rank."""
        own = super().widths
        return own if own == {self.whole_width} else {self.lead.group.ranks * width for width in own}

    def move(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        if any(source != target for source, target in zip(sources, targets, strict=True)):
            with self.lead.telling(Move(self.number, sources, targets)):
                super().move(sources, targets)

    def read_last(self, layers: int, slots: torch.Tensor) -> torch.Tensor:
        if super().widths == {self.whole_width}:
            return super().read_last(layers, slots)
        with self.lead.telling(Read(self.number, layers, slots.cpu().numpy())):
            return torch.cat(self.lead.group.gather(super().read_last(layers, slots)), dim=-1)
