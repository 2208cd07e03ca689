"""A rank that is not the first: it executes what rank 0 tells, until it is told to stop or rank 0 is gone.

`python follower.py DEVICE STORE` is such a rank, started by rank 0; torchrun starts `outriderd serve` for each. It may
not know sessions, or what a pass is for.
"""

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

import torch

from common.models.packed import PackedModel
from common.protocol.errors import OutriderError
from server.fault_isolation import describe_error
from server.models.target_loader import load_target
from server.rank_info import RankInfo, find_rank_info
from server.ranks.commands import Beat, Load, Move, Read, Run, Serve, Stop, decode
from server.ranks.group import Group, RanksBrokenError


def follow(rank_info: RankInfo, device: str, store: str = "") -> NoReturn:
    """Joins the ranks at `store`, or where torchrun says, executes commands, and exits."""
    # These go to all ranks of a terminal or a unit. Rank 0 drains first.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    code = 1
    try:
        _execute(Group(rank_info, device, store))
        code = 0
    except RanksBrokenError:
        pass  # rank 0 tells, if it still can
    except Exception as error:
        said = str(error) if isinstance(error, OutriderError) else describe_error(error)
        with suppress(OSError):
            sys.stderr.write(f"outriderd: rank {rank_info.rank}: {said}\n")
            sys.stderr.flush()
    # Not by `sys.exit`: threads of the group need the interpreter while it shuts down.
    os._exit(code)


@torch.inference_mode()
def _execute(group: Group) -> None:
    targets: list[PackedModel] = []
    while True:
        match decode(group.receive()):
            case Load(arguments):
                targets.append(load_target(**arguments).model)
            case Run(target, segments):
                targets[target].forward(segments)
            case Move(target, sources, destinations):
                targets[target].pool.move(list(sources), list(destinations))
            case Read(target, layers, slots):
                pool = targets[target].pool
                group.gather(pool.read_last(layers, torch.as_tensor(slots, device=pool.device)))
            case Serve():
                group.expect_answers_soon()
            case Beat():
                group.meet()
            case Stop():
                return


if __name__ == "__main__":
    follow(find_rank_info(None, os.environ), *sys.argv[1:])
