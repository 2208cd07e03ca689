"""Makes a drafter of any kind of the registry from a bundle's directory.

What may live here: what every kind is loaded from, and errors. It may not know any kind: `common/draft_kinds.py` names
them, and the module of one is imported when it is loaded.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from common.atomic import scratch_folder
from common.bundle import TAIL_FOLDER
from common.draft_kinds import DRAFT_KINDS, STATELESS_KINDS
from common.drafters.best_first import Expansion
from common.drafters.drafter import Drafter
from common.memory import TOO_LITTLE_MEMORY, is_out_of_memory
from common.models.errors import CheckpointError
from common.models.source import CONFIG, weight_files
from common.protocol.draft_state import HIDDEN, LAST
from common.protocol.errors import MisuseError, OutriderError
from common.protocol.messages import StateRequest
from common.protocol.terms import MAX_NODES
from common.transformers_import import IMPORTING

if TYPE_CHECKING:
    import torch
    from torch import nn

    from common.drafters.ranking import Rank
    from common.models.decoder import CausalLm

SPARE_SLOTS = MAX_NODES
"""K/V slots for the tree beside a full context."""


@dataclass(frozen=True, slots=True)
class DrafterConfig:
    """What a drafter is made from: the directory of its draft model, device and dtype, the sizes of its target, and
    the draft state that it is to ask for, if its kind needs any; `request.layers` are the target layers that it runs
    itself. `rank` turns its logits into candidates."""

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


DrafterFactory = Callable[[], Drafter]
"""Makes a drafter for another session, on weights that are loaded already."""


class DrafterModule(Protocol):
    """What the module of a kind in `common.drafters` offers."""

    def load(self, config: DrafterConfig) -> DrafterFactory:
        """Loads the weights once. Raises CheckpointError where they are missing or broken."""
        ...


def import_kind(kind: str) -> None:
    """Imports what a draft of this kind is loaded with, which takes seconds, so that it may be done beforehand."""
    if kind in DRAFT_KINDS:
        importlib.import_module(f"common.drafters.{kind}")


Beside = Sequence[tuple[str, DrafterConfig]]
"""Other drafts in the same tree: the kind of each, and what it is made from, of which a kind without weights takes only
the bounds of its tree."""


def load_drafter(kind: str, config: DrafterConfig, beside: Beside = ()) -> Drafter:
    """A drafter for one session. Raises as `load_draft_model` does."""
    return load_draft_model(kind, config, beside)()


def load_draft_model(kind: str, config: DrafterConfig, beside: Beside = ()) -> DrafterFactory:
    """Loads a draft's weights; its drafters share their trees with those `beside`. Raises MisuseError for an unknown
    kind, a number of target layers that the kind cannot run or drafts that cannot draft together, CheckpointError for
    a draft that cannot be loaded."""
    make = _load_kind(kind, config)
    if not beside:
        return make
    check_shared_state([(each, its.request) for each, its in [(kind, config), *beside]])
    from common.drafters.merged import MergedDrafter

    others = [(each in STATELESS_KINDS, _load_kind(each, its)) for each, its in beside]
    members = [make, *(its for copies, its in others if not copies)]
    copying = [its for copies, its in others if copies]
    return lambda: MergedDrafter([each() for each in members], [each() for each in copying])


def check_shared_state(drafts: Sequence[tuple[str, StateRequest]]) -> None:
    """Whether one request for draft state serves drafts that draft together: of each its kind, and what it would ask
    for alone. Raises MisuseError."""
    kinds = [(DRAFT_KINDS.get(kind), request) for kind, request in drafts]
    needing = [(kind.state, request) for kind, request in kinds if kind is not None and kind.state is not None]
    states = {state for state, _ in needing}
    if len(needing) > 1 and not (len(states) == 1 and states <= {HIDDEN, LAST}):
        one, other = (request.draft for _, request in needing[:2])
        raise MisuseError(
            f"'{one}' and '{other}' cannot draft together, for each needs draft state that is made for it alone, and a "
            "session has room for that of one; name one of them beside a draft without draft state"
        )


def _load_kind(kind: str, config: DrafterConfig) -> DrafterFactory:
    known = DRAFT_KINDS.get(kind)
    if known is None:
        raise MisuseError(f"no drafter '{kind}' is known here, only {', '.join(DRAFT_KINDS)}; upgrade this side")
    request = config.request
    if request.layers and not known.runs_target_layers:
        raise MisuseError(
            f"the draft model '{request.draft}' runs no layer of the target, not {request.layers}; choose 0"
        )
    module = cast(DrafterModule, importlib.import_module(f"common.drafters.{kind}"))
    try:
        return module.load(config)
    except OutriderError:
        raise
    # For whatever a configuration says that cannot be, torch has an exception of its own.
    except Exception as error:
        if is_out_of_memory(error):
            raise CheckpointError(
                f"the draft model in {config.directory} cannot be loaded: {TOO_LITTLE_MEMORY}"
            ) from error
        raise CheckpointError(
            f"the draft model in {config.directory} cannot be what its {CONFIG} says; fetch it again"
        ) from error


def load_causal_lm_for(config: DrafterConfig) -> "CausalLm":
    """A draft that is a whole checkpoint. Raises CheckpointError where it is missing or broken, or where passes do not
    agree with it."""
    from common.models.parts import layers_of
    from common.models.prepacked import prepack_network

    model = _load_causal_lm(config)
    prepack_network(layers_of(model))
    return model


def _load_causal_lm(config: DrafterConfig) -> "CausalLm":
    from common.models.decoder import load_decoder

    decoder = load_decoder(config.directory, config.device, config.dtype)
    if decoder is not None:
        return decoder
    with IMPORTING:
        from common.models.agreement import check_agreement
        from common.models.checkpoint import load_causal_lm

    with _as_plain(config.directory) as directory:
        model = load_causal_lm(directory, device=config.device, dtype=config.dtype)
    check_agreement(model)
    return model


def load_tail_for(draft: "nn.Module", config: DrafterConfig, hidden: int | None) -> "CausalLm":
    """The target's tail with as many layers as the draft runs, and the draft's network put where it is, in its dtype.
    The draft's hidden states have `hidden` numbers, None where they meet none of the tail's.

    Raises CheckpointError where the tail is missing or broken, or its hidden states are of another width.
    """
    from common.models.parts import layers_of
    from common.models.prepacked import prepack_network

    tail = _load_tail(config)
    if hidden is not None and hidden != tail.config.hidden_size:
        raise CheckpointError(
            f"the draft model in {config.directory} is made for hidden states of {hidden} numbers, but the target's "
            f"have {tail.config.hidden_size}; name a draft of this target"
        )
    draft.to(tail.device, tail.dtype)
    for network in (draft, layers_of(tail)):
        prepack_network(network)
    return tail


def drafting_head(model: "CausalLm", kept: "torch.Tensor | None" = None) -> "nn.Module":
    """The rows of the model's head for the `kept` tokens, int64 [kept], None for all, laid out for levels of a tree.
    Once for all sessions: it may be a copy."""
    from common.draft_models.vocabulary import trim_head
    from common.models.parts import head_of
    from common.models.prepacked import prepacked_head

    return prepacked_head(trim_head(head_of(model), kept))


def _load_tail(config: DrafterConfig) -> "CausalLm":
    from common.models.decoder import load_decoder

    layers = config.request.layers
    decoder = load_decoder(config.tail_directory, config.device, config.dtype, layers)
    if decoder is not None:
        return decoder
    with IMPORTING:
        from common.draft_models.tail import load_tail

    with _as_plain(config.tail_directory) as directory:
        return load_tail(directory, layers, config.device, config.dtype)


@contextmanager
def _as_plain(directory: Path) -> Iterator[Path]:
    """For transformers, which knows no weights that we have quantised: the directory, or a plain copy."""
    from common.weight_only.files import dequantise_directory, mode_of

    if not any(mode_of(file) for file in weight_files(directory)):
        yield directory
        return
    with ExitStack() as stack:
        try:
            # Beside what it is made of, where there is room for files: the system's folder may be in memory.
            folder = stack.enter_context(scratch_folder(directory / "plain"))
            dequantise_directory(directory, folder)
        except OSError as error:
            raise CheckpointError(
                f"the draft model in {directory} cannot be loaded, for this kind of model needs a plain copy of its "
                f"weights there: {error.strerror or error}; make room, or leave --weights out"
            ) from error
        yield folder
