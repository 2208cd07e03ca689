"""What a client needs of a published draft model: its own tensors in one file, without those that only the server
computes with, and without the target's own. Written once, kept for later runs.

It may not know bundles, tails' layers or how a draft runs.
"""

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

from common.draft_kinds import KIND_KEY
from common.draft_models.layouts import Layout, recognise
from common.draft_models.weight_files import draft_weight_files, read_tensors
from common.models.decoder import load_decoder
from common.models.source import CONFIG, WEIGHTS, read_json
from server.models.kept_folder import keep_folder


def keep_client_half(draft: Path, tail: Path, cache: Path) -> Path:
    """The directory with a draft's `config.json` and the weights that a client needs, written now unless it was before:
    that of the draft itself where it is ours, and one file. `tail` is where the target's embedding lies.

    It is named by all that is written, so that one of another draft, or of how another version chose what a client
    needs, is never met; and equal drafts and tails make equal bytes. Raises CheckpointError where the draft is broken,
    or where the cache cannot be written.
    """
    config, files = read_json(draft / CONFIG), draft_weight_files(draft)
    if KIND_KEY in config and files == [draft / WEIGHTS]:
        return draft
    layout = recognise(draft)
    tensors = read_tensors(draft, prefix=layout.prefix if layout else "")
    if layout is not None:
        tensors = _for_client(layout, tensors, tail)

    def write(out: Path) -> None:
        shutil.copyfile(draft / CONFIG, out / CONFIG)
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, out / WEIGHTS)

    kept = cache / "drafts" / _digest((draft / CONFIG).read_bytes(), tensors)
    return keep_folder(kept, write, "what clients need of a draft model")


def _digest(config: bytes, tensors: Mapping[str, torch.Tensor]) -> str:
    digest = hashlib.sha256(repr(len(config)).encode() + config)
    for name, tensor in sorted(tensors.items()):
        digest.update(repr((name, tensor.dtype, tuple(tensor.shape))).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _for_client(layout: Layout, tensors: dict[str, torch.Tensor], tail: Path) -> dict[str, torch.Tensor]:
    kept = {name: tensor for name, tensor in tensors.items() if layout.is_for_client(name)}
    own = layout.embedding
    if own in kept:
        # Only where the target's embedding is this table and nothing more; some families scale what they look up.
        target = load_decoder(tail, "cpu", kept[own].dtype, 0)
        if target is not None and torch.equal(target.get_input_embeddings().get_parameter("weight"), kept[own]):
            del kept[own]
    return kept
