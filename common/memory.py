"""How much memory is free, what was freed and is still held, and which errors mean that it ran out, by class and text.

It imports torch only where it has to ask it, and no other library that raises such errors.
"""

import os
from contextlib import suppress
from pathlib import Path

from common.control_groups import memory_left_bytes

TOO_LITTLE_MEMORY = "there is too little memory; end other programs, or choose a smaller model or dtype"

_MEMORY = Path("/proc/meminfo")
_TORCHS_CLASS = "OutOfMemoryError"
_SAID = (
    "can't allocate memory",
    "cannot allocate memory",
    "cublas_status_alloc_failed",
    "not enough memory",
    "memory allocation",
    "out of memory",
    "failed to map segment",
)


def free_memory_bytes(device: str) -> int:
    """Free memory of the device; for the CPU what programs can get of the machine's, or of their container's. 0 if it
    is unknown."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.mem_get_info(device)[0] if torch.cuda.is_available() else 0
    try:
        for line in _MEMORY.read_text(encoding="ascii").splitlines():
            name, _, size = line.partition(":")
            if name == "MemAvailable":  # what is free, and what the kernel's cache of files would give up
                return int(min(int(size.split()[0]) * 1024, memory_left_bytes()))
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 0


def return_freed_memory() -> None:
    """Gives the system back what was freed. glibc keeps blocks below 32 MiB for later, those of each thread apart: as
    much as all weights, where some threads load them and another lays them out anew."""
    import ctypes

    with suppress(OSError, AttributeError):  # not on Linux, or with another libc
        ctypes.CDLL(None).malloc_trim(0)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this error, or one that it was raised from, means that memory ran out."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError) or type(seen).__name__ == _TORCHS_CLASS:
            return True
        if any(each in str(seen).lower() for each in _SAID):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
