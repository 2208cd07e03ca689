"""What a measurement computes on: a device, its name, its clock, and the dtype that fits it. It may not know models."""

import time
from collections.abc import Callable

import torch

from common.models.placement import parse_device


def compute_clock(device: torch.device) -> Callable[[], float]:
    """Seconds that computing takes: processor time on a CPU, so that other programs do not count; on a GPU, which works
    beside the processor, time until all that was launched before the call is done."""
    if device.type == "cpu":
        return time.process_time

    def done() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return done


def half_on_gpu(device: str) -> torch.dtype:
    """float32 on a CPU, bfloat16 on a GPU, whose kernels are made for it. Raises CheckpointError for a device that this
    machine does not have."""
    return torch.float32 if parse_device(device).type == "cpu" else torch.bfloat16


def device_name(device: str) -> str:
    return "the processor" if torch.device(device).type == "cpu" else torch.cuda.get_device_name(device)
