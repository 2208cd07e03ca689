"""Clover's heads (Xiao et al. 2024, arXiv 2405.00263): one recurrent head that takes in the path token by token through
an attention of its state to each token, behind a layer that prepares the target's hidden states.

What may live here: the network, its configuration, its files. It may not know caches, trees or losses.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn
from torch.nn.functional import cosine_similarity

from common.draft_models.directory import DraftFacts, check_heads, network_from, read_config, save_draft
from common.draft_models.layers import LayerShape, RmsNorm
from common.draft_models.path_heads import PathHeads
from common.draft_models.weight_files import read_tensors
from common.models.errors import CheckpointError
from common.models.source import CONFIG

KIND = "clover"


@dataclass(frozen=True, slots=True)
class CloverConfig:
    """`heads`: the most tokens of a path that it was trained for. `layer`: the augmenting block, whose heads are also
    those of the attention to tokens."""

    hidden: int
    vocabulary: int
    heads: int
    layer: LayerShape

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError where a field is missing or of another type."""
        heads = int(content["heads"])
        check_heads(heads)
        return cls(
            int(content["hidden"]),
            int(content["vocabulary"]),
            heads,
            LayerShape.from_json(content["layer"]),
        )


class RegressiveAttention(nn.Module):
    """s + a v(e), where a is, in each attention head, the cosine of q(norm(s)) and k(e): what a state s takes in of a
    token with embedding e. It starts by taking in nothing."""

    def __init__(self, width: int, heads: int, epsilon: float):
        super().__init__()
        self.norm = RmsNorm(width, epsilon)
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))
        for projection in (self.q_proj, self.k_proj):
            nn.init.eye_(projection.weight)
            nn.init.zeros_(projection.bias)
        nn.init.uniform_(self.v_proj.weight, -0.01, 0.01)
        nn.init.zeros_(self.v_proj.bias)
        self._heads = heads
        self._epsilon = epsilon

    def forward(self, state: torch.Tensor, embedded: torch.Tensor) -> torch.Tensor:
        """`[B, E]` from `state` and `embedded`, `[B, E]` each."""
        queries, keys, values = (
            x.unflatten(-1, (self._heads, x.shape[-1] // self._heads))
            for x in (self.q_proj(self.norm(state)), self.k_proj(embedded), self.v_proj(embedded))
        )
        share = cosine_similarity(queries, keys, dim=-1, eps=self._epsilon)
        out: torch.Tensor = state + (share[..., None] * values).flatten(1)
        return out


class CloverDraft(PathHeads):
    """All positions ahead are predicted by the same weights, and the target's own head."""

    def __init__(self, config: CloverConfig):
        super().__init__(config)
        layer = config.layer
        self.regressive = RegressiveAttention(config.hidden, layer.heads, layer.epsilon)
        self.merge = nn.Linear(2 * config.hidden, config.hidden)
        self.norm = RmsNorm(config.hidden, layer.epsilon)
        with torch.no_grad():  # it starts as the state, with a little of the token
            self.merge.weight.mul_(0.1)[:, : config.hidden].add_(torch.eye(config.hidden))
            self.merge.bias.zero_()

    def logits(self, base: torch.Tensor, embedded: torch.Tensor, target_head: nn.Module) -> torch.Tensor:
        """`[B, V]` behind the path of `embedded [B, K, E]` from the hidden states `base [B, E]`."""
        state = base
        for token in embedded.unbind(dim=1):
            state = self.regressive(state, token)
        out: torch.Tensor = target_head(self.norm(self.merge(torch.cat([state, embedded[:, -1]], dim=-1))))
        return out


def save_clover(directory: Path, fingerprint: str, draft: CloverDraft) -> None:
    save_draft(directory, KIND, fingerprint, draft.config.to_json(), draft.state_dict())


def load_clover(directory: Path) -> CloverDraft:
    """The heads, frozen, as they were saved. Raises CheckpointError where the directory holds none."""
    try:
        config = CloverConfig.from_json(read_config(directory, KIND))
        return network_from(lambda: CloverDraft(config), read_tensors(directory), directory)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{directory / CONFIG} describes no Clover heads; fetch or train them again") from error


def read_facts(directory: Path) -> DraftFacts:
    """Raises as `load_clover` does."""
    config = load_clover(directory).config
    return DraftFacts(hidden=config.hidden, vocabulary=config.vocabulary)
