"""Medusa's heads (Cai et al. 2024, arXiv 2401.10774) and the sparse tree that their calibrated accuracies choose.

What may live here: the network, its configuration, its files, and the greedy choice of a tree. It may not know
sessions, slots, losses or how accuracies are measured.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn
from torch.nn import functional

from common.draft_models.directory import load_into, read_config, read_tensors, save_draft
from common.models.errors import CheckpointError
from common.models.source import CONFIG

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

KIND = "medusa"

RANKS = 10
"""The number of likeliest tokens of each head that a tree may contain."""

Accuracies = Sequence[Sequence[float]]
"""`[heads][ranks]`: how often the token of that rank of that head is the next one."""

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
        return cls(
            hidden=int(content["hidden"]),
            vocabulary=int(content["vocabulary"]),
            accuracies=tuple(tuple(float(each) for each in head) for head in content["accuracies"]),
            blocks=int(content["blocks"]),
            shared_head=bool(content["shared_head"]),
        )


class ResidualBlock(nn.Module):
    """x + SiLU(W x + b), initialised to the identity."""

    def __init__(self, width: int):
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + functional.silu(self.linear(x))


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
    """The heads, frozen, as they were saved. Raises CheckpointError where the directory holds none."""
    content = read_config(directory, KIND)
    try:
        draft = MedusaDraft(MedusaConfig.from_json(content))
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{directory / CONFIG} describes no Medusa heads; fetch or train them again.") from error
    load_into(draft, read_tensors(directory), directory)
    return draft


def read_depths(directory: Path, target: "PreTrainedConfig") -> tuple[int, ...] | None:
    """Only 0, as they run no target layer; None where their sizes are not the target's. Raises as `load_medusa`
    does."""
    config = load_medusa(directory).config
    return (0,) if (config.hidden, config.vocabulary) == (target.hidden_size, target.vocab_size) else None
