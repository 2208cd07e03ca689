"""How many parameters of a draft's own lie on the laptop. Reads what files say of their tensors, loads nothing."""

from math import prod

from safetensors import safe_open

from common.draft_models.directory import read_draft_depths
from netem.experiments.one_device.compared_drafts import ComparedDraft

_SERVERS = "exporter"
_FLOATS = ("F64", "F32", "F16", "BF16")


def own_parameters(compared: ComparedDraft) -> int:
    """Without the target's layers that it runs, its embedding and its head; a draft of several depths is counted at
    its own."""
    if compared.directory is None:
        return 0
    prefix = f"{compared.depth}." if read_draft_depths(compared.directory) else ""
    total = 0
    for file in sorted(compared.directory.glob("*.safetensors")):
        if file.stem.startswith(_SERVERS):
            continue
        with safe_open(file, "pt") as tensors:
            names = tensors.keys()
            slices = [tensors.get_slice(name) for name in names if name.startswith(prefix)]
            total += sum(prod(each.get_shape()) for each in slices if each.get_dtype() in _FLOATS)
    return total
