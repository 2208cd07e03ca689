"""The draft models of this server: checked against the target before any client comes, and the exporters of their
draft state once the target runs.

It may not know any kind (`common/draft_kinds.py` does), bundles, sessions or how state travels.
"""

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from common.draft_kinds import DRAFT_KINDS, STATELESS_KINDS, DraftKind
from common.draft_models.directory import DraftFacts, check_fingerprint, check_sizes
from common.draft_models.exporters import KeyValueExporter, StateExporter, load_exporter, taps_of
from common.draft_models.tail import check_last_layers
from common.models.checkpoint import load_config
from common.models.errors import CheckpointError
from common.models.packed import PackedModel
from common.protocol.draft_state import HIDDEN, LAST, LSA
from server.passes.state_maker import Exporters


@dataclass(frozen=True, slots=True)
class DraftModel:
    """A draft that clients may use and that can run beside the target. `depths` are the numbers of target layers that
    it may run itself; `tail` is where the target's tail lies, None where it needs none."""

    name: str
    kind: DraftKind
    directory: Path
    depths: tuple[int, ...] = (0,)
    tail: Path | None = None


STATELESS_MODELS = tuple(DraftModel(name, DRAFT_KINDS[name], Path()) for name in STATELESS_KINDS)


class NetworkModule(Protocol):
    """What the module of a kind on the target's tail offers in `common.draft_models`."""

    def read_facts(self, directory: Path) -> DraftFacts:
        """What the draft's files say of it. Raises CheckpointError where the directory holds none of the kind."""
        ...


def network_of(kind: DraftKind) -> NetworkModule:
    return cast(NetworkModule, importlib.import_module(f"common.draft_models.{kind.name}"))


def read_draft_model(name: str, kind: DraftKind, directory: Path, target: Path, fingerprint: str) -> DraftModel:
    """A draft that runs on the target's tail. Raises CheckpointError for one of another target, of sizes that do not
    fit, or for which the target has no tail."""
    check_fingerprint(directory, fingerprint)
    facts = network_of(kind).read_facts(directory)
    check_sizes(directory, facts, load_config(target))
    check_last_layers(target, max(facts.depths))
    return DraftModel(name, kind, directory, facts.depths)


def needs_hidden(drafts: Iterable[DraftModel]) -> bool:
    """Whether the target must keep its last hidden states for one of `drafts`."""
    return any(draft.kind.state == HIDDEN for draft in drafts)


def needed_taps(drafts: Iterable[DraftModel], layers: int) -> tuple[int, ...]:
    """The layers of a target of `layers` layers whose hidden states it must keep for `drafts`."""
    return tuple(sorted({tap for draft in drafts for tap in taps_of(draft.kind.state, draft.directory, layers)}))


def load_exporters(drafts: Sequence[DraftModel], target: PackedModel) -> Exporters:
    """The exporters of each draft that needs draft state, at each of its depths, on the target's device and in its
    dtype.

    Raises CheckpointError where the server's half of a draft is missing or broken.
    """
    # Those without weights of a draft are shared, so that one forward serves the sessions of several drafts.
    shared: dict[str, StateExporter] = {}
    widths = target.pool.widths
    reading = next((draft.name for draft in drafts if draft.kind.state in (LSA, LAST) or any(draft.depths)), None)
    if reading is not None and len(widths) > 1:
        raise CheckpointError(
            f"the draft model {reading} is made of the target's keys and values, which have different widths here, and "
            "no draft state holds that; leave it out"
        )
    key_width = next(iter(widths))
    key_values = {layers: KeyValueExporter(layers, key_width) for draft in drafts for layers in draft.depths if layers}
    exporters: dict[tuple[str, int], Sequence[StateExporter]] = {}
    for draft in drafts:
        if draft.kind.state is None:
            continue
        first = shared.get(draft.kind.state) or load_exporter(draft.kind.state, draft.directory, target)
        if draft.kind.state == HIDDEN:
            shared[HIDDEN] = first
        for layers in draft.depths:
            exporters[draft.name, layers] = [first, key_values[layers]] if layers else [first]
    return exporters
