"""`moa`: Mixture of Attentions (Zimmer et al., ICLR 2025, arXiv 2410.03804), one pair of layers for every N of
target-layer inference.

What may live here: how both halves of such a draft model are saved and loaded. Its network is in
`mixture_of_attentions.py`.
"""

from collections.abc import Mapping
from pathlib import Path

import torch

from common.draft_models.directory import DraftFacts, network_from, read_config, save_draft
from common.draft_models.lsa import StateMixer
from common.draft_models.mixture_of_attentions import MoaConfig, MoaDraft, load_mixer
from common.draft_models.vocabulary import KEPT_TOKENS
from common.draft_models.weight_files import read_tensors
from common.models.errors import CheckpointError
from common.protocol.errors import MisuseError

KIND = "moa"


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
        raise CheckpointError(f"the configuration in {directory} is broken; fetch or train the draft again.") from error


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
    return load_mixer(directory, read_moa_config(directory))
