"""Reads the memory of processes and GPUs. Linux says what is needed of processes."""

import os
from dataclasses import dataclass
from pathlib import Path

import torch

_KIB = 1024


@dataclass(frozen=True, slots=True)
class Resident:
    """Resident memory in bytes: now, and the most that it has been. Mapped files count where they are in memory."""

    now: int
    peak: int


def resident(pid: int | None = None) -> Resident:
    """Of a process, by default this one."""
    lines = Path(f"/proc/{os.getpid() if pid is None else pid}/status").read_text(encoding="ascii").splitlines()
    values = dict(line.split(":", 1) for line in lines)
    return Resident(_bytes(values["VmRSS"]), _bytes(values["VmHWM"]))


def _bytes(value: str) -> int:
    return int(value.removesuffix("kB")) * _KIB


def device_used(device: str) -> int:
    """Bytes of a GPU's memory that all processes hold, this one included."""
    free, total = torch.cuda.mem_get_info(torch.device(device))
    return total - free
