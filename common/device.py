"""The device that computes and its threads, as options name them. It imports torch only where it has to ask it."""

import os

MOST_THREADS = 4 * max(16, os.cpu_count() or 1)
"""What `--threads` may say at most: far more threads than processors only wait for each other, and torch ends the
process where the system has no more."""

AUTO_DEVICE = "auto"
"""Instead of a device's name: a GPU where there is one, else the processor."""


def device_named(name: str) -> str:
    """`name`, or the device that `AUTO_DEVICE` stands for on this machine. Torch's mps is untried, so that it has to be
    named."""
    if name != AUTO_DEVICE:
        return name
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
