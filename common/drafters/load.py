"""Makes a drafter from a bundle's directory: the one table of drafter kinds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from common.bundle import TAIL_FOLDER
from common.drafters.best_first import Expansion
from common.drafters.drafter import Drafter
from common.drafters.lookup import LookupDrafter
from common.models.errors import CheckpointError
from common.models.source import CONFIG
from common.programs.memory import TOO_LITTLE_MEMORY, is_out_of_memory
from common.protocol.errors import MisuseError, OutriderError
from common.protocol.messages import StateRequest

if TYPE_CHECKING:
    from common.drafters.ranking import Rank
    from common.models.decoder import CausalLm

SPARE_SLOTS = 512
"""Room for the tree beside a full context."""


@dataclass(frozen=True, slots=True)
class DraftSite:
    """Where a drafter's files lie, what it runs on, the dimensions of its target, and which draft state it is to ask
    for, if its kind needs any; `request.layers` are the target layers that it runs itself. `rank` says what becomes of
    its logits."""

    directory: Path
    device: str
    dtype: str
    context: int  # tokens of the longest sequence
    vocab_size: int
    request: StateRequest
    expansion: Expansion = field(default_factory=Expansion)
    rank: "Rank | None" = None  # None for `ranking_for`
    tail: Path | None = None  # where the target's tail lies, None for the folder that a bundle has for it

    @property
    def tail_directory(self) -> Path:
        return self.tail or self.directory / TAIL_FOLDER

    @property
    def ranking(self) -> "Rank":
        from common.drafters.ranking import ranking_for

        return self.rank or ranking_for


MakeDrafter = Callable[[], Drafter]
"""Makes a drafter for another session, on weights that are loaded already."""


def import_for(kind: str) -> None:
    """Imports what loading a draft of this kind needs, which takes seconds, so that it may be done beforehand."""
    for module in _MODULES.get(kind, ()):
        import_module(f"common.{module}")


def load_drafter(kind: str, site: DraftSite) -> Drafter:
    """A drafter for one session. Raises as `load_draft` does."""
    return load_draft(kind, site)()


def load_draft(kind: str, site: DraftSite) -> MakeDrafter:
    """Raises MisuseError for an unknown kind and CheckpointError for a draft that cannot be loaded."""
    loader = _LOADERS.get(kind)
    if loader is None:
        raise MisuseError(f"no drafter '{kind}' is known here, only {', '.join(_LOADERS)}; upgrade this side")
    try:
        return loader(site)
    except OutriderError:
        raise
    # For whatever a configuration says that cannot be, torch has an exception of its own.
    except Exception as error:
        if is_out_of_memory(error):
            raise CheckpointError(f"the draft in {site.directory} cannot be loaded: {TOO_LITTLE_MEMORY}.") from error
        raise CheckpointError(
            f"the draft in {site.directory} cannot be what its {CONFIG} says; fetch it again."
        ) from error


def _lookup(site: DraftSite) -> MakeDrafter:
    return lambda: LookupDrafter(site.expansion)


def _independent(site: DraftSite) -> MakeDrafter:
    from common.drafters.independent import IndependentNetwork
    from common.drafters.tree_drafter import TreeDrafter
    from common.models.packed import PackedModel

    model = _causal_lm(site)

    def make() -> Drafter:
        network = IndependentNetwork(PackedModel(model, site.context + SPARE_SLOTS), site.vocab_size)
        return TreeDrafter(network, site.expansion, site.ranking)

    return make


def _moa(site: DraftSite) -> MakeDrafter:
    from common.draft_models.moa import load_moa
    from common.drafters.moa import MoaNetwork
    from common.drafters.tree_drafter import TreeDrafter

    draft, kept = load_moa(site.directory, site.request.layers)
    tail = _tail(site, site.request.layers)
    _check_width(site.directory, draft.config.hidden, tail.config.hidden_size)
    draft.to(tail.device, tail.dtype)

    def make() -> Drafter:
        network = MoaNetwork(draft, tail, site.request, site.context, SPARE_SLOTS, kept)
        return TreeDrafter(network, site.expansion, site.ranking)

    return make


def _eagle(site: DraftSite) -> MakeDrafter:
    from common.draft_models.eagle import load_eagle
    from common.drafters.eagle import EagleNetwork
    from common.drafters.tree_drafter import TreeDrafter

    draft, kept = load_eagle(site.directory)
    tail = _tail(site, 0)
    _check_width(site.directory, draft.config.hidden, tail.config.hidden_size)
    draft.to(tail.device, tail.dtype)
    embedding, head, request = tail.get_input_embeddings(), tail.lm_head, _without_layers(site.request)

    def make() -> Drafter:
        network = EagleNetwork(draft, embedding, head, request, site.context, SPARE_SLOTS, kept)
        return TreeDrafter(network, site.expansion, site.ranking)

    return make


def _medusa(site: DraftSite) -> MakeDrafter:
    from common.draft_models.medusa import load_medusa
    from common.drafters.medusa import MedusaDrafter

    draft = load_medusa(site.directory)
    tail = _tail(site, 0)
    _check_width(site.directory, draft.config.hidden, tail.config.hidden_size)
    draft.to(tail.device, tail.dtype)
    request = _without_layers(site.request)
    return lambda: MedusaDrafter(draft, tail.lm_head, request, site.expansion, site.ranking)


def _causal_lm(site: DraftSite) -> "CausalLm":
    from common.models.decoder import load_decoder

    decoder = load_decoder(site.directory, site.device, site.dtype)
    if decoder is not None:
        return decoder
    from common.models.checkpoint import load_causal_lm

    return load_causal_lm(site.directory, device=site.device, dtype=site.dtype)


def _tail(site: DraftSite, layers: int) -> "CausalLm":
    """The target's embedding, last layers, norm and head."""
    from common.models.decoder import load_decoder

    decoder = load_decoder(site.tail_directory, site.device, site.dtype, layers)
    if decoder is not None:
        return decoder
    from common.draft_models.tail import load_tail

    return load_tail(site.tail_directory, layers, site.device, site.dtype)


def _check_width(directory: Path, hidden: int, targets: int) -> None:
    """Raises CheckpointError for a draft whose hidden states are not as wide as the target's."""
    if hidden != targets:
        raise CheckpointError(
            f"the draft in {directory} is made for hidden states of {hidden} numbers, but the target's have {targets}; "
            "name a draft of this target."
        )


def _without_layers(request: StateRequest) -> StateRequest:
    """Raises MisuseError where a draft that runs no target layer is asked to."""
    if request.layers:
        raise MisuseError(f"the draft '{request.draft}' runs no layer of the target, not {request.layers}; choose 0")
    return request


_LOADERS: dict[str, Callable[[DraftSite], MakeDrafter]] = {
    "lookup": _lookup,
    "independent": _independent,
    "moa": _moa,
    "eagle": _eagle,
    "medusa": _medusa,
}

_MODULES: dict[str, tuple[str, ...]] = {
    "independent": ("drafters.independent", "drafters.tree_drafter", "models.packed"),
    "moa": ("drafters.moa", "drafters.tree_drafter", "models.decoder"),
    "eagle": ("drafters.eagle", "drafters.tree_drafter", "models.decoder"),
    "medusa": ("draft_models.medusa", "drafters.medusa", "models.decoder"),
}
"""What these import."""
