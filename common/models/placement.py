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
        raise CheckpointError(f"the dtype '{dtype}' is unknown; use one of: {', '.join(DTYPES)}.")
    return chosen


def parse_device(device: str | torch.device) -> torch.device:
    """Raises `CheckpointError` for a device that passes do not run on or this machine does not have."""
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise CheckpointError(f"the device '{device}' is unknown; use cpu or cuda.") from error
    if chosen.type not in ("cpu", "cuda"):
        raise CheckpointError(f"passes do not run on the device '{device}'; use cpu or cuda.")
    here = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    if chosen.type == "cuda" and f"cuda:{chosen.index or 0}" not in here:
        raise CheckpointError(f"the device '{device}' is not in this machine; use one of: {', '.join(here)}.")
    return chosen
