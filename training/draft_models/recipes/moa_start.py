"""What a `moa` draft starts from, where that is a finished one: its weights, and the best linear codec of its states.

What may live here: copying weights between drafts of this kind. It may not know losses, batches or the target.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from common.draft_models.directory import check_fingerprint
from common.draft_models.lsa import CodedMixer, StateMixer
from common.draft_models.moa import MoaConfig, MoaDraft, load_lsa, load_moa, read_moa_config
from common.models.fingerprint import describe_tensors
from common.models.source import WEIGHTS
from common.protocol.errors import MisuseError

# Shape letters: W state width, E hidden size, C width of the codec.
# ruff: noqa: N806


def started_config(directory: Path, fingerprint: str, depths: Sequence[int] | None) -> MoaConfig:
    """The sizes of a draft that starts from the one in `directory`; `depths` None for all of its own. Raises
    CheckpointError where that one is for another target, MisuseError where it has a codec already."""
    check_fingerprint(directory, fingerprint)
    config = read_moa_config(directory)
    if config.codec is not None:
        raise MisuseError(f"the draft in {directory} has a learnt codec already; name one without")
    return config if depths is None else replace(config, depths=tuple(depths))


def described_start(directory: Path) -> str:
    """The draft's name, and a checksum that another one of that name has not."""
    tensors = json.dumps(describe_tensors(directory / WEIGHTS), sort_keys=True)
    return f"the draft {directory.resolve().name}, {hashlib.sha256(tensors.encode()).hexdigest()[:12]}"


@torch.no_grad()
def start_from(directory: Path, lsa: StateMixer, drafts: Mapping[int, MoaDraft]) -> None:
    """Copies the weights of the draft in `directory`. A codec, which it lacks, begins as the linear one that loses
    least of what the client's halves make of a state: the leading right singular vectors of their first matrices. These
    are turned at random, so that the numbers of a group, which share a scale, are alike in size."""
    held = {depth: load_moa(directory, depth)[0] for depth in drafts}
    if isinstance(lsa, CodedMixer):
        matrices = torch.cat([draft.project.weight for draft in held.values()]).float()
        width = lsa.encode.out_features
        encode_CW = torch.linalg.svd(matrices).Vh[:width]
        encode_CW = nn.init.orthogonal_(torch.empty(width, width)) @ encode_CW
        for draft in held.values():
            draft.project.weight = nn.Parameter(draft.project.weight.float() @ encode_CW.T)
        lsa.encode.weight.copy_(encode_CW)
        lsa.encode.bias.zero_()
    mixer = lsa.mixer if isinstance(lsa, CodedMixer) else lsa
    mixer.load_state_dict(load_lsa(directory).state_dict())
    for depth, draft in drafts.items():
        draft.load_state_dict(held[depth].state_dict())
