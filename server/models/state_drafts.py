"""The drafts that need the target's own state: checked against the target before any client comes, and what serves
them once it runs. One table of kinds.

It may not know bundles, sessions or how state travels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedConfig

from common.draft_models import eagle, medusa, moa
from common.draft_models.directory import check_fingerprint
from common.draft_models.exporters import HiddenExporter, KeyValueExporter, LsaExporter, StateExporter
from common.models.checkpoint import load_config
from common.models.errors import CheckpointError
from common.models.packed import PackedModel
from common.models.sizes import key_width
from server.passes.state_maker import Exporters


@dataclass(frozen=True, slots=True)
class StateDraft:
    """A draft that needs draft state. `depths` are the numbers of target layers that its clients may run."""

    name: str
    kind: str
    directory: Path
    depths: tuple[int, ...]

    @property
    def needs_hidden(self) -> bool:
        """Whether the target must keep last hidden states."""
        return self.kind != moa.KIND


def read_state_draft(name: str, kind: str, directory: Path, target: Path, fingerprint: str) -> StateDraft:
    """Raises CheckpointError for a draft of another target, of an unknown kind, or whose sizes do not fit."""
    reader = _READERS.get(kind)
    if reader is None:
        kinds = ", ".join(_READERS)
        raise CheckpointError(f"{directory} holds a draft of kind '{kind}', but this server knows only: {kinds}.")
    check_fingerprint(directory, fingerprint)
    depths = reader(directory, load_config(target))
    if depths is None:
        raise CheckpointError(f"the draft in {directory} was made for a target of other sizes; train one for this.")
    return StateDraft(name, kind, directory, depths)


def load_exporters(drafts: Sequence[StateDraft], target: PackedModel) -> Exporters:
    """What serves each draft at each of its depths, on the target's device and in its dtype.

    Raises CheckpointError where the server's half of a draft is missing or broken.
    """
    # Those that are nobody's own are shared, so that one forward serves the sessions of several drafts.
    hidden = HiddenExporter(target.model.config.hidden_size)
    key_width = target.pool.keys_SX[0].shape[1]
    key_values = {layers: KeyValueExporter(layers, key_width) for draft in drafts for layers in draft.depths if layers}
    exporters: dict[tuple[str, int], Sequence[StateExporter]] = {}
    for draft in drafts:
        first = hidden if draft.needs_hidden else _load_lsa(draft.directory, target)
        for layers in draft.depths:
            exporters[draft.name, layers] = [first, key_values[layers]] if layers else [first]
    return exporters


def _load_lsa(directory: Path, target: PackedModel) -> LsaExporter:
    lsa = moa.load_lsa(directory).to(target.model.device, target.model.dtype)
    return LsaExporter(lsa, moa.read_moa_config(directory).state_width)


Depths = tuple[int, ...] | None
"""None where the draft's sizes are not the target's."""


def _read_moa(directory: Path, target: PreTrainedConfig) -> Depths:
    config = moa.read_moa_config(directory)
    sizes = (target.hidden_size, target.num_hidden_layers, 2 * key_width(target))
    return config.depths if (config.hidden, config.target_layers, config.state_width) == sizes else None


def _read_eagle(directory: Path, target: PreTrainedConfig) -> Depths:
    draft, _ = eagle.load_eagle(directory)
    return (0,) if draft.config.hidden == target.hidden_size else None


def _read_medusa(directory: Path, target: PreTrainedConfig) -> Depths:
    config = medusa.load_medusa(directory).config
    return (0,) if (config.hidden, config.vocabulary) == (target.hidden_size, target.vocab_size) else None


_READERS: dict[str, Callable[[Path, PreTrainedConfig], Depths]] = {
    moa.KIND: _read_moa,
    eagle.KIND: _read_eagle,
    medusa.KIND: _read_medusa,
}
"""What checks each kind's sizes and reads its depths."""
