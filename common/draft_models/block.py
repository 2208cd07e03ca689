"""`block`, our own: one forward predicts the next token of any node of a tree, and the tokens of many positions behind
one of them. It is a Tandem decoder (Nair et al. 2024, arXiv 2402.08644) with masked positions behind the last token,
as in block diffusion drafting (DFlash, arXiv 2602.06036), and a small recurrent correction along the path that a tree
takes through them (Hydra, Ankner et al. 2024, arXiv 2402.05109, conditions its heads in this way).

What may live here: the client's network, its configuration, and how a draft is saved and loaded. The server's half is
that of `tandem`, and what travels as wide. It may not know losses, caches, trees or the target's head.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn
from torch.nn.functional import silu

from common.draft_models.directory import DraftFacts, network_from, read_config, save_draft
from common.draft_models.layers import Attention, DecoderLayer, LayerShape, full_attention
from common.draft_models.state_fuse import StateFuse, check_reach
from common.draft_models.tandem import TandemConfig, TandemDraft, load_fuse_of
from common.draft_models.weight_files import read_tensors
from common.models.errors import CheckpointError

# Shape letters: N blocks, B positions of a block, S tokens before it, E hidden size, C width of the correction.

KIND = "block"


@dataclass(frozen=True, slots=True)
class BlockConfig:
    """`trunk`: sizes of the layers that it shares with `tandem`, and of the states. `length`: positions that one
    forward predicts. `across`: the layer in which these see each other. `correction`: width of the recurrent state."""

    trunk: TandemConfig
    length: int
    across: LayerShape
    correction: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError where a field is missing or of another type."""
        return cls(
            trunk=TandemConfig.from_json(content["trunk"]),
            length=int(content["length"]),
            across=LayerShape.from_json(content["across"]),
            correction=int(content["correction"]),
        )


class BlockDraft(nn.Module):
    """The client's half. What `trunk` makes of a token predicts the next one, as in `tandem`. A block begins at an
    anchor, the last token that is known: position 0 of it is the anchor's, and those behind it, which have no token of
    their own and enter the last layer of the trunk, predict the tokens behind the next one."""

    def __init__(self, config: BlockConfig):
        super().__init__()
        self.config = config
        hidden, width = config.trunk.layer.hidden, config.correction
        self.trunk = TandemDraft(config.trunk)
        self.masks = nn.Parameter(torch.zeros(config.length - 1, hidden))
        self.carry = nn.Linear(hidden, hidden, bias=False)
        self.across = DecoderLayer(config.across)
        self.begin = nn.Linear(hidden, width)
        self.step = nn.GRUCell(hidden, width)
        self.weigh = nn.Linear(hidden + width, width)
        self.correct = nn.Linear(width, hidden, bias=False)

    def predict_block(
        self,
        read: torch.Tensor,
        positions: torch.Tensor,
        attention: Attention,
        keys_values: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        """The hidden states `[N, B, E]` of all positions of blocks whose anchors, at `positions [N]`, enter the
        trunk's last layer as `read [N, E]`. `attention`: of `[N, H, B, D]` to that layer's `keys_values` of the
        tokens up to the anchors."""
        entering = torch.cat([read[:, None], self.masked(read)], dim=1)
        within = self.block_positions(positions)
        return self.among(self.trunk.last(entering, within, attention, keys_values), within)

    def masked(self, read: torch.Tensor) -> torch.Tensor:
        """What enters the trunk's last layer for all positions but the first, `[N, B - 1, E]`, from what enters for the
        anchors, `read [N, E]`."""
        out: torch.Tensor = self.carry(read)[:, None] + self.masks
        return out

    def block_positions(self, anchors: torch.Tensor) -> torch.Tensor:
        """`[N, B]`: the positions of blocks, from `anchors [N]` on."""
        return anchors[:, None] + torch.arange(self.config.length, device=anchors.device)

    def among(self, seen: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """`[N, B, E]`: the hidden states of a block, at `positions [N, B]`, see each other."""
        out: torch.Tensor = self.across(seen, positions, full_attention)
        return out

    def first_path(self, hidden: torch.Tensor) -> torch.Tensor:
        """The recurrent state `[N, C]` of an empty path, from the hidden states `[N, E]` of the first positions."""
        return torch.tanh(self.begin(hidden))

    def next_path(self, paths: torch.Tensor, embedded: torch.Tensor) -> torch.Tensor:
        """The recurrent states `[N, C]` of paths that are one token longer, whose embeddings are `[N, E]`."""
        out: torch.Tensor = self.step(embedded, paths)
        return out

    def corrected(self, hidden: torch.Tensor, paths: torch.Tensor) -> torch.Tensor:
        """Hidden states `[N, E]` that know the tokens from the anchor to themselves, by their `paths [N, C]`."""
        weighed = silu(self.weigh(torch.cat([hidden, paths], dim=-1)))
        out: torch.Tensor = hidden + self.correct(weighed)
        return out


def save_block(directory: Path, fingerprint: str, draft: BlockDraft, fuse: StateFuse) -> None:
    """Writes the client's half and the server's, in the dtype they have."""
    save_draft(directory, KIND, fingerprint, draft.config.to_json(), draft.state_dict(), fuse.state_dict())


def read_block_config(directory: Path) -> BlockConfig:
    """Raises CheckpointError where `directory` holds no block draft."""
    try:
        config = BlockConfig.from_json(read_config(directory, KIND))
        if config.length < 2 or config.correction < 1:
            raise ValueError("a block has two positions at least")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the configuration in {directory} is broken; fetch or train the draft again") from error
    return config


def read_facts(directory: Path) -> DraftFacts:
    """Raises CheckpointError where `directory` holds no block draft, or one that is broken."""
    trunk = read_block_config(directory).trunk
    return DraftFacts(hidden=trunk.layer.hidden, least_layers=max(trunk.taps))


def load_block(directory: Path) -> BlockDraft:
    """The client's half, frozen. Raises CheckpointError where it is not there or broken."""
    config = read_block_config(directory)
    return network_from(lambda: BlockDraft(config), read_tensors(directory), directory)


def load_fuse(directory: Path) -> StateFuse:
    """The server's half, frozen. Raises CheckpointError where it is not there or broken."""
    return load_fuse_of(read_block_config(directory).trunk, directory)


def read_taps(directory: Path, layers: int) -> tuple[int, ...]:
    """The layers of a target of `layers` layers whose inputs are projected down. Raises CheckpointError where it has
    not so many."""
    return check_reach(read_block_config(directory).trunk.taps, layers, directory)
