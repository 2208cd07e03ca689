"""`moa`: Mixture of Attentions (Zimmer et al., ICLR 2025, arXiv 2410.03804), one pair of layers for every N of
target-layer inference: the client's self-attention, and cross-attention over the states that `lsa` makes on the server.

What may live here: the client's network, its configuration, and how both halves are saved and loaded. It may not know
losses, caches or the frozen target layers.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from common.draft_models.directory import (
    EXPORTER_WEIGHTS,
    DraftFacts,
    load_into,
    network_from,
    read_config,
    save_draft,
)
from common.draft_models.layers import Attention, DecoderLayer, LayerShape, RmsNorm
from common.draft_models.lsa import MIXERS, CodedMixer, StateMixer, keep_stored_dtypes
from common.draft_models.state_codec import StateCodec, codec_of
from common.draft_models.vocabulary import KEPT_TOKENS
from common.draft_models.weight_files import read_tensors
from common.models.errors import CheckpointError
from common.protocol.draft_state import DEFAULT_DTYPE
from common.protocol.errors import MisuseError

# Shape letters: B rows, T tokens, S received states, L target layers, W state width, E hidden size.

KIND = "moa"


@dataclass(frozen=True, slots=True)
class MoaConfig:
    """Sizes of one draft. `depths` are the numbers N of the target's last layers that it can run below: each has a
    client's half of its own, and all share the server's, so that N may change while states stay."""

    hidden: int
    target_layers: int
    state_width: int  # twice the width of a target layer's keys
    depths: tuple[int, ...]
    lsa: LayerShape
    sa: LayerShape
    ca: LayerShape
    mixer: str = "mixture"  # of `common.draft_models.lsa`
    final_norm: bool = True  # before the target's head, as the target has one; the published form has none
    codec: StateCodec | None = None  # None: states travel as the mixer makes them

    @property
    def sent_width(self) -> int:
        """Numbers of a token's state that travel."""
        return self.state_width if self.codec is None else self.codec.width

    @property
    def sent_dtype(self) -> str:
        """In which they are meant to travel."""
        return DEFAULT_DTYPE if self.codec is None else self.codec.dtype

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError where a field is missing or of another type, CheckpointError for a
        codec of another version."""
        return cls(
            hidden=int(content["hidden"]),
            target_layers=int(content["target_layers"]),
            state_width=int(content["state_width"]),
            depths=tuple(int(depth) for depth in content["depths"]),
            lsa=LayerShape.from_json(content["lsa"]),
            sa=LayerShape.from_json(content["sa"]),
            ca=LayerShape.from_json(content["ca"]),
            mixer=str(content["mixer"]),
            final_norm=bool(content["final_norm"]),
            codec=codec_of(content),
        )


class MoaDraft(nn.Module):
    """The client's half for one N: predicts the input of the target's last N layers, of its head where N is 0."""

    def __init__(self, config: MoaConfig, depth: int):
        super().__init__()
        self.config = config
        self.project = nn.Linear(config.sent_width, config.hidden)  # of a learnt codec, the decoder
        self.sa = DecoderLayer(config.sa)
        self.ca = DecoderLayer(config.ca)
        ends_in_head = config.final_norm and depth == 0
        self.norm = RmsNorm(config.hidden, config.ca.epsilon) if ends_in_head else nn.Identity()

    def read(self, embedded: torch.Tensor, positions: torch.Tensor, attention: Attention) -> torch.Tensor:
        """Self-attention over token embeddings `[B, T, E]`."""
        out: torch.Tensor = self.sa(embedded, positions, attention)
        return out

    def project_states(self, states: torch.Tensor) -> torch.Tensor:
        """`[B, S, E]` from received states `[B, S, sent_width]`."""
        out: torch.Tensor = self.project(states)
        return out

    def look_back(
        self,
        read: torch.Tensor,
        positions: torch.Tensor,
        attention: Attention,
        keys_values: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        """Cross-attention `[B, T, E]` from what was read to the received states' `keys_values`, of `ca.keys_values`."""
        out: torch.Tensor = self.norm(self.ca(read, positions, attention, keys_values))
        return out


def make_lsa(config: MoaConfig) -> StateMixer:
    """A new, untrained server's half. Raises KeyError for an unknown mixer."""
    mixer = MIXERS[config.mixer](config.target_layers, config.lsa)
    return mixer if config.codec is None else CodedMixer(mixer, config.state_width, config.codec.width)


def save_moa(
    directory: Path,
    fingerprint: str,
    config: MoaConfig,
    drafts: Mapping[int, MoaDraft],
    lsa: StateMixer,
    kept: torch.Tensor | None = None,
) -> None:
    """Writes the client's half for each N and the server's for all, in the dtype they have. `kept`: the tokens that it
    may propose, int64 [kept]; None for all."""
    client = {f"{depth}.{name}": tensor for depth, half in drafts.items() for name, tensor in half.state_dict().items()}
    if kept is not None:
        client[KEPT_TOKENS] = kept
    save_draft(directory, KIND, fingerprint, config.to_json(), client, lsa.state_dict())


def read_moa_config(directory: Path) -> MoaConfig:
    """Raises CheckpointError where `directory` holds no moa draft."""
    try:
        return MoaConfig.from_json(read_config(directory, KIND))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the configuration in {directory} is broken; fetch or train the draft again") from error


def read_facts(directory: Path) -> DraftFacts:
    """Raises CheckpointError where `directory` holds no moa draft, or one that is broken."""
    config = read_moa_config(directory)
    return DraftFacts(config.depths, config.hidden, layers=config.target_layers, state_width=config.state_width)


def load_moa(directory: Path, depth: int) -> tuple[MoaDraft, torch.Tensor | None]:
    """The client's half for N = `depth`, frozen, and the tokens that it may propose, None for all.

    Raises CheckpointError where it is not there or broken, MisuseError for an N that the draft does not serve.
    """
    config = read_moa_config(directory)
    if depth not in config.depths:
        served = ", ".join(map(str, config.depths))
        raise MisuseError(f"this draft runs {served} of the target's layers, not {depth}; choose one of these")
    own = f"{depth}."
    every = read_tensors(directory)
    tensors = {name.removeprefix(own): each for name, each in every.items() if name.startswith(own)}
    draft = network_from(lambda: MoaDraft(config, depth), tensors, directory)
    return draft, every.get(KEPT_TOKENS)


def load_lsa(directory: Path) -> StateMixer:
    """The server's half, frozen. Raises CheckpointError where it is not there or broken."""
    config = read_moa_config(directory)
    if config.mixer not in MIXERS:
        raise CheckpointError(
            f"the draft model in {directory} mixes layers by '{config.mixer}', which is unknown; upgrade"
        )
    lsa = make_lsa(config)
    if lsa.state_dict():  # a plain mean has nothing to load
        stored = read_tensors(directory, EXPORTER_WEIGHTS)
        load_into(lsa, stored, directory)
        keep_stored_dtypes(lsa, stored)
    return lsa
