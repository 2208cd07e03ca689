"""What drafts' state takes on the server: the weights that make it, and the hidden states that are kept for it.

Read from files' headers; no weights are loaded. It may not know the target's own weights.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common.draft_models.directory import EXPORTER_WEIGHTS, read_draft_kind
from common.draft_models.exporters import taps_of
from common.draft_models.weight_files import draft_weight_files
from common.models.source import checkpoint_directory
from common.protocol.draft_state import FUSED, HIDDEN, LSA
from common.protocol.errors import OutriderError
from common.weight_only.needs import read_file_header

_FUSING = "fc."
"""How the names of weights that fuse begin in published EAGLE-3 drafts, which have them beside all others."""


@dataclass(frozen=True, slots=True)
class StateNeeds:
    """`numbers`: of all exporters' weights; `hidden_states`: vectors that are kept of each token."""

    numbers: int = 0
    hidden_states: int = 0


NO_STATE = StateNeeds()


def state_needs(drafts: Sequence[str], layers: int) -> StateNeeds:
    """Of `drafts`, beside a target of `layers` layers. Those that cannot be used count nothing."""
    numbers, is_last_kept, taps = 0, False, set[int]()
    for draft in drafts:
        try:
            directory = checkpoint_directory(draft, with_weights=True)
            kind = read_draft_kind(directory)
            taps |= set(taps_of(kind.state, directory, layers))
            is_last_kept |= kind.state == HIDDEN
            numbers += _exporter_numbers(directory) if kind.state in (LSA, FUSED) else 0
        except (OutriderError, OSError, ValueError):
            continue
    return StateNeeds(numbers, len(taps) + is_last_kept)


def _exporter_numbers(directory: Path) -> int:
    own = directory / EXPORTER_WEIGHTS
    if own.is_file():
        return sum(math.prod(tensor.shape) for tensor in read_file_header(own).values())
    return sum(
        math.prod(tensor.shape)
        for file in draft_weight_files(directory)
        for name, tensor in read_file_header(file).items()
        if name.startswith(_FUSING)
    )
