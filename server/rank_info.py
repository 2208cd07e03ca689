"""Which rank of a tensor-parallel server this process is, and whether that can be. It imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass

from common.counted import counted
from common.protocol.errors import MisuseError

RANK, RANKS, LOCAL_RANK, LOCAL_RANKS = "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"
"""What torchrun sets in the environment of each process that it starts."""


@dataclass(frozen=True, slots=True)
class RankInfo:
    """`rank` of `ranks`, of which `local` are on this machine. `is_launched`: by torchrun, which also says in the
    environment where the ranks meet."""

    rank: int = 0
    ranks: int = 1
    local: int = 1
    is_launched: bool = False


ALONE = RankInfo()


def find_rank_info(tensor_parallel: int | None, environment: Mapping[str, str]) -> RankInfo:
    """By --tensor-parallel, or by torchrun. Raises MisuseError where they contradict each other."""
    if RANK not in environment or RANKS not in environment:
        return RankInfo(ranks=tensor_parallel or 1, local=tensor_parallel or 1)
    rank, ranks = _number(environment, RANK), _number(environment, RANKS)
    if not 0 <= rank < ranks:
        raise MisuseError(
            f"{RANK}={rank} and {RANKS}={ranks} in the environment name no process of a group; unset both, or start "
            "the ranks with torchrun"
        )
    if tensor_parallel is not None and tensor_parallel != ranks:
        raise MisuseError(
            f"torchrun started {counted(ranks, 'process')}, but --tensor-parallel says {tensor_parallel}; leave out "
            "--tensor-parallel"
        )
    local = _number(environment, LOCAL_RANKS) if LOCAL_RANKS in environment else ranks
    return RankInfo(rank, ranks, local, is_launched=ranks > 1)


def _number(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[name])
    except ValueError as error:
        raise MisuseError(
            f"{name} in the environment is no number; unset it, or start the ranks with torchrun"
        ) from error


def check_devices(rank_info: RankInfo, device: str, gpus: int) -> None:
    """Raises MisuseError for more ranks than the `gpus` of this machine; a CPU takes any number."""
    if device not in ("cpu", "cuda"):
        raise MisuseError(
            f"a target is divided among the GPUs of --device cuda, or on --device cpu, but not on '{device}'; choose "
            "one of them"
        )
    if device == "cuda" and rank_info.local > gpus:
        remedy = f"start {gpus}" if gpus > 1 else "leave out --tensor-parallel"
        raise MisuseError(f"{rank_info.local} ranks need a GPU each, but this machine has {gpus}; {remedy}")
