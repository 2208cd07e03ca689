"""Splits a checkpoint's weights into two files with an index, as hubs hold large ones."""

import json
from pathlib import Path

from safetensors.torch import load_file, save_file


def shard(directory: Path) -> None:
    """Replaces `model.safetensors`; every other tensor goes to the second file."""
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    names = sorted(tensors)
    where = {}
    for index in range(2):
        file = f"model-0000{index + 1}-of-00002.safetensors"
        own = {name: tensors[name] for name in names[index::2]}
        save_file(own, directory / file, metadata={"format": "pt"})
        where |= dict.fromkeys(own, file)
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
