"""Medusa's heads (Cai et al. 2024, arXiv 2401.10774) and the sparse tree that their calibrated accuracies choose.

What may live here: the network, its configuration, its files, and the greedy choice of a tree. It may not know
sessions, slots, losses or how accuracies are measured.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from common.draft_kinds import KIND_KEY
from common.draft_models.directory import DraftFacts, check_heads, network_from, read_config, save_draft
from common.draft_models.layers import ResidualBlock
from common.draft_models.layouts import MEDUSA, recognise, rename
from common.draft_models.weight_files import read_tensors
from common.models.errors import CheckpointError
from common.models.source import CONFIG, read_json

KIND = "medusa"

RANKS = 10
"""The number of likeliest tokens of each head that a tree may contain."""

Accuracies = Sequence[Sequence[float]]
"""`[heads][ranks]`: how often the token of that rank of that head is the next one."""

_FIRST_HEAD = (0.5, 0.12, 0.05, 0.03, 0.02, 0.015, 0.01, 0.01, 0.005, 0.005)
_NEXT_HEAD = 0.7

Ranks = tuple[int, ...]
"""A path from the root of a tree: on each level, the rank of its token in that level's head."""


@dataclass(frozen=True, slots=True)
class MedusaConfig:
    """`shared_head`: all heads end in the target's own, which is no part of the draft; the published form has one for
    each. `blocks`: residual blocks of each head."""

    hidden: int
    vocabulary: int
    accuracies: tuple[tuple[float, ...], ...]
    blocks: int = 1
    shared_head: bool = False

    @property
    def heads(self) -> int:
        return len(self.accuracies)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError where a field is missing or of another type."""
        blocks = int(content["blocks"])
        check_heads(len(content["accuracies"]), blocks)
        return cls(
            hidden=int(content["hidden"]),
            vocabulary=int(content["vocabulary"]),
            accuracies=tuple(tuple(float(each) for each in head) for head in content["accuracies"]),
            blocks=blocks,
            shared_head=bool(content["shared_head"]),
        )


class MedusaDraft(nn.Module):
    """Head k, counted from 0, predicts the token at position i + 2 + k from the target's last hidden state, after the
    final norm, at position i; the token at i + 1 comes from the target itself."""

    def __init__(self, config: MedusaConfig):
        super().__init__()
        self.config = config
        self.trunks = nn.ModuleList(
            nn.Sequential(*(ResidualBlock(config.hidden) for _ in range(config.blocks))) for _ in range(config.heads)
        )
        if not config.shared_head:
            self.heads = nn.ModuleList(
                nn.Linear(config.hidden, config.vocabulary, bias=False) for _ in range(config.heads)
            )

    def begin_from(self, head: torch.Tensor) -> None:
        """Copies the target's head `[V, E]` into every head that is not shared."""
        for own in self.heads if not self.config.shared_head else ():
            with torch.no_grad():
                own.get_parameter("weight").copy_(head)

    def logits(self, index: int, hidden: torch.Tensor, target_head: nn.Module) -> torch.Tensor:
        """`[..., V]` of head `index` from `hidden [..., E]`."""
        head = target_head if self.config.shared_head else self.heads[index]
        out: torch.Tensor = head(self.trunks[index](hidden))
        return out


def assumed_accuracies(heads: int) -> tuple[tuple[float, ...], ...]:
    """What is taken for the accuracies of heads where none were measured, as of published ones."""
    return tuple(tuple(each * _NEXT_HEAD**head for each in _FIRST_HEAD) for head in range(heads))


def sparse_tree(accuracies: Accuracies, nodes: int, least_probability: float = 0.0) -> list[Ranks]:
    """The best tree of at most `nodes` nodes: paths of ranks, parents first, the likeliest first.

    A path is as likely as the product of its accuracies; a node is taken once its parent is, so the greedy choice
    maximises the expected number of accepted tokens (Cai et al. 2024, section 2.3.3). Paths below
    `least_probability`, and those that never came true, are left out.
    """
    chosen: list[Ranks] = []
    waiting: list[tuple[float, Ranks]] = []

    def offer(path: Ranks, probability: float) -> None:
        for rank, accuracy in enumerate(accuracies[len(path)] if len(path) < len(accuracies) else ()):
            if probability * accuracy > 0 and probability * accuracy >= least_probability:
                heapq.heappush(waiting, (-probability * accuracy, (*path, rank)))

    offer((), 1.0)
    while waiting and len(chosen) < nodes:
        negative, path = heapq.heappop(waiting)
        chosen.append(path)
        offer(path, -negative)
    return chosen


def save_medusa(directory: Path, fingerprint: str, draft: MedusaDraft, accuracies: Accuracies) -> None:
    """Writes the heads, and the measured `accuracies` into their configuration."""
    config = draft.config.to_json() | {"accuracies": [list(head) for head in accuracies]}
    save_draft(directory, KIND, fingerprint, config, draft.state_dict())


def load_medusa(directory: Path) -> MedusaDraft:
    """The heads, frozen, as they were saved. Takes our directories and published ones, which may hold the whole model
    that they were trained with (Medusa-2); of such a one only the heads are read.

    Raises CheckpointError where the directory holds none.
    """
    content, tensors = read_json(directory / CONFIG), read_tensors(directory, prefix=MEDUSA.prefix)
    try:
        if KIND_KEY in content:
            config = MedusaConfig.from_json(read_config(directory, KIND))
        else:
            config, tensors = _published(content, tensors, directory)
        return network_from(lambda: MedusaDraft(config), tensors, directory)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{directory / CONFIG} describes no Medusa heads; fetch or train them again") from error


def read_facts(directory: Path) -> DraftFacts:
    """Raises as `load_medusa` does."""
    config = load_medusa(directory).config
    return DraftFacts(hidden=config.hidden, vocabulary=config.vocabulary)


def _published(
    content: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], directory: Path
) -> tuple[MedusaConfig, dict[str, torch.Tensor]]:
    """The configuration of published heads, and their tensors under our names. All heads of the file are taken, where
    its configuration names fewer too, as those of the authors do.

    Raises CheckpointError where they are none or incomplete, TypeError or ValueError for numbers that are none.
    """
    layout = recognise(directory)
    if layout is None or layout.kind != KIND:
        raise CheckpointError(f"{directory} holds no Medusa heads; name another directory")
    numbered = [name.removeprefix(layout.prefix).partition(".")[0] for name in tensors]
    held = max((int(number) for number in numbered if number.isdecimal()), default=-1) + 1
    heads, blocks = max(held, int(content.get("medusa_num_heads", 0))), int(content.get("medusa_num_layers", 1))
    check_heads(heads, blocks)
    renamed = rename(layout, tensors, directory, heads=heads, blocks=blocks)
    vocabulary, hidden = renamed["heads.0.weight"].shape
    return MedusaConfig(hidden, vocabulary, assumed_accuracies(heads), blocks), renamed
