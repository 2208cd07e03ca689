"""Which dtypes and devices passes run in, by the names that people give them.

It may not know checkpoints. It imports torch alone, so that a client can ask without waiting for transformers.
"""

import torch

from common.models.errors import CheckpointError

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def parse_dtype(dtype: str | torch.dtype) -> torch.dtype:
    """Raises `CheckpointError` for a dtype that passes do not run in."""
    chosen = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if chosen is None or chosen not in DTYPES.values():
        raise CheckpointError(f"the dtype '{dtype}' is unknown; use one of: {', '.join(DTYPES)}")
    return chosen


def parse_device(device: str | torch.device) -> torch.device:
    """Raises `CheckpointError` for a device that passes do not run on or this machine does not have."""
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise CheckpointError(f"the device '{device}' is unknown; use cpu, cuda or mps") from error
    if chosen.type not in ("cpu", "cuda", "mps"):
        raise CheckpointError(f"passes do not run on the device '{device}'; use cpu, cuda or mps")
    here = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        here.append("mps")
    wanted = f"cuda:{chosen.index or 0}" if chosen.type == "cuda" else chosen.type
    if wanted not in here:
        raise CheckpointError(f"the device '{device}' is not in this machine; use one of: {', '.join(here)}")
    return chosen
