"""Loads the draft of a bundle, with as many target layers as a person chose or as make answers fastest here, and tells
a damaged bundle from one that never fitted.

May know bundles, drafters and how long a level takes. It may not know servers or sessions.
"""

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from client.cache.bundle_check import damage_of
from client.cache.quantised_bundle import quantised_here
from client.drafting.depth import Depth, best_depth
from client.errors import BundleError
from common.bundle import BundleManifest
from common.device import device_named
from common.draft_kinds import LOOKUP, STATELESS_KINDS
from common.drafters.deepening import DeepeningDrafter
from common.drafters.drafter import Drafter
from common.drafters.stand_in import StandInDrafter
from common.protocol.draft_state import WIRE_DTYPES
from common.protocol.errors import MisuseError, OutriderError
from common.protocol.messages import StateRequest
from common.weight_only.modes import AS_IS, check_weights

if TYPE_CHECKING:
    from common.draft_models.measured_acceptance import MeasuredAcceptance
    from common.drafters.load import DrafterConfig, DrafterFactory

AUTO = "auto"
"""Instead of a draft's name: the one that drafts fastest here."""

_UNREACHED_ROUND_TRIP_S = 60.0
"""The assumed round trip to a server that was not reached, when depths are compared."""


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """What drafts and on what, for the target of the name `model`, empty for the server's first. `draft` is None for
    that target's first, and may name several that draft into one tree, as in `moa+lookup`; `AUTO` is to be settled
    before (`fastest_draft.py`), and may name a draft model as `stand_in` then, which answers what the server has not
    read while the link is down. `threads` is 0 to leave them to torch. A draft that needs draft state gets it in
    numbers of the dtype `state`, None for that of the draft, and runs the target's last `layers` itself; None chooses
    as many as make answers fastest. `weights` is a mode of `common.weight_only.modes`."""

    draft: str | None = None
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 0
    layers: int | None = 0
    state: str | None = None
    weights: str = AS_IS
    model: str = ""
    stand_in: str | None = None

    def __post_init__(self) -> None:
        """Raises MisuseError for a dtype in which no server sends state, a weights mode that does not exist, and drafts
        that cannot draft together."""
        check_weights(self.weights)
        names = self._names
        if self.draft == "":
            raise MisuseError("--draft names nothing; give a draft's name, or leave --draft out")
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise MisuseError(f"--draft {self.draft} names '{repeated}' twice; name each draft once")
        if AUTO in names:
            raise MisuseError(f"--draft {self.draft}: '{AUTO}' chooses what drafts beside it; write --draft {AUTO}")
        if "" in names:
            raise MisuseError(f"--draft {self.draft} lacks a name beside its '+'; write it as in moa+lookup")
        if self.state not in (None, *WIRE_DTYPES):
            raise MisuseError(f"draft state cannot come in '{self.state}'; choose from: {', '.join(WIRE_DTYPES)}")

    @property
    def bundle(self) -> str | None:
        """The name of the draft model whose bundle is loaded; None for the target's first, and until `AUTO` is
        settled. All kinds without weights have one bundle."""
        return LOOKUP if self._first in STATELESS_KINDS else self._first

    @property
    def other_bundles(self) -> tuple[str, ...]:
        """The names of further draft models, each with a bundle of its own, that draft beside it."""
        return tuple(name for name in self._names if name not in (self._first, *self.beside))

    @property
    def beside(self) -> tuple[str, ...]:
        """The kinds without weights that draft beside it."""
        return tuple(name for name in self._names if name in STATELESS_KINDS and name != self._first)

    def kind(self, manifest: BundleManifest) -> str:
        """The kind of what is loaded from the chosen bundle, which `manifest` describes."""
        return self._first if self._first in STATELESS_KINDS else manifest.kind

    @property
    def _first(self) -> str | None:
        """The first that has weights, else the first."""
        with_weights = [name for name in self._names if name not in STATELESS_KINDS]
        return next(iter([*with_weights, *self._names]), None)

    @property
    def _names(self) -> list[str]:
        return [] if self.draft in (None, AUTO) else self.draft.split("+")


@dataclass(frozen=True, slots=True)
class _Trial(Depth):
    """A depth that was timed, and what makes drafters of it."""

    make: "DrafterFactory"


@dataclass(frozen=True, slots=True)
class DraftLoader:
    """`bundle` is the directory of what `manifest` says, as of the `others` that draft beside it or stand in; sequences
    of the target have `context` tokens at most, out of `vocab_size`; `round_trip` is in seconds, infinite if the server
    was not reached."""

    bundle: Path
    manifest: BundleManifest
    choice: DraftChoice
    context: int
    vocab_size: int
    round_trip: float
    others: tuple[tuple[BundleManifest, Path], ...] = ()

    @property
    def compared_round_trip(self) -> float:
        """In seconds, for comparing drafts: finite."""
        return min(self.round_trip, _UNREACHED_ROUND_TRIP_S)

    def load(self) -> "DrafterFactory":
        """Loads the weights. Returns a factory that makes drafters for any number of conversations on them. Raises
        OutriderError if they cannot be loaded."""
        is_open = self.choice.layers is None and not self._beside
        make = self._load_fastest() if is_open else self._load(self.choice.layers or 0)
        stand_in = next((other for other in self.others if other[0].draft == self.choice.stand_in), None)
        return make if stand_in is None else self._with_stand_in(make, *stand_in)

    @property
    def _beside(self) -> list[tuple[BundleManifest, Path]]:
        return [other for other in self.others if other[0].draft in self.choice.other_bundles]

    def _with_stand_in(self, make: "DrafterFactory", manifest: BundleManifest, bundle: Path) -> "DrafterFactory":
        """Its weights are loaded once a conversation needs it, at the deepest that fits then."""
        choice = replace(self.choice, draft=manifest.draft, stand_in=None)
        loader = replace(self, bundle=bundle, manifest=manifest, choice=choice, others=())
        deepest = cache(lambda: loader._load_deepest(loader.worth()))

        def load_stand_in() -> Drafter | None:
            try:
                loaded = deepest()
            except OutriderError:
                return None  # nobody asked for it, and the other can write
            return None if loaded is None else loaded[1]()

        return lambda: StandInDrafter(make(), load_stand_in)

    def _load(self, layers: int) -> "DrafterFactory":
        from common.drafters.load import load_draft_model

        if self.choice.threads:
            import torch

            torch.set_num_threads(self.choice.threads)
        site = self._site(self.bundle, self.manifest, layers)
        bounds = replace(site, request=replace(site.request, layers=0))
        beside = [(kind, bounds) for kind in self.choice.beside]
        beside += [(manifest.kind, self._site(bundle, manifest, 0)) for manifest, bundle in self._beside]
        with ExitStack() as stack:
            for manifest, bundle in ((self.manifest, self.bundle), *self._beside):
                stack.enter_context(_reporting_damage(bundle, manifest))
            return load_draft_model(self.choice.kind(self.manifest), site, beside)

    def _state_dtype(self) -> str:
        from common.draft_models.state_codec import read_state_dtype

        with _reporting_damage(self.bundle, self.manifest):
            return self.choice.state or read_state_dtype(self.bundle)

    def _site(self, bundle: Path, manifest: BundleManifest, layers: int) -> "DrafterConfig":
        from client.drafting.needed_memory import check_memory
        from common.drafters.load import DrafterConfig

        choice, device = self.choice, device_named(self.choice.device)
        directory = quantised_here(bundle, manifest, choice.weights)
        check_memory(directory, manifest.draft, manifest.kind, layers, device, choice.weights, choice.dtype)
        request = StateRequest(manifest.draft, layers, self._state_dtype())
        return DrafterConfig(directory, device, choice.dtype, self.context, self.vocab_size, request)

    def _load_fastest(self) -> "DrafterFactory":
        """Tries every depth that was measured after training and fits into memory; if none was measured, runs no layer
        of the target. What runs none goes to the deepest while it writes alone.

        Raises BundleError if the bundle names a depth that cannot be: the user has chosen none; TooLargeError if
        no depth fits.
        """
        measured = self.worth()
        if not measured:
            return self._load(0)
        if len(measured) == 1:
            return self._load_named(*measured)
        # Tried as they are asked for, so that no more than the best so far and the next are in memory.
        best = best_depth(self._trials(measured), self.compared_round_trip)
        loaded = None if best.layers else self._load_deepest(measured)
        if loaded is None:
            return best.make
        deepest, make_deepest = loaded
        request = StateRequest(self.manifest.draft, deepest, self._state_dtype(), later=True)
        return lambda: DeepeningDrafter(best.make(), make_deepest(), request)

    def _trials(self, measured: "Mapping[int, MeasuredAcceptance]") -> Iterator[_Trial]:
        """Of each depth that fits into memory, the shallowest first. Raises TooLargeError if none does."""
        from client.drafting.needed_memory import TooLargeError

        refusals = list[TooLargeError]()
        for layers in sorted(measured):
            try:
                yield self._try(layers, measured[layers])
            except TooLargeError as error:
                refusals.append(error)
        if len(refusals) == len(measured):
            raise refusals[0]

    def _load_deepest(self, measured: Iterable[int]) -> "tuple[int, DrafterFactory] | None":
        """The deepest that fits beside what is loaded; None if none does that runs a layer of the target."""
        from client.drafting.needed_memory import TooLargeError

        for layers in sorted(filter(None, measured), reverse=True):
            try:
                return layers, self._load_named(layers)
            except TooLargeError:
                continue
        return None

    def worth(self) -> "dict[int, MeasuredAcceptance]":
        """By depth, as measured after training; empty where nothing was. Raises BundleError for impossible figures."""
        from common.models.errors import CheckpointError
        from common.models.source import CONFIG

        if not (self.bundle / CONFIG).is_file():
            return {}
        from common.draft_models.measured_acceptance import read_measured_acceptance

        try:
            return read_measured_acceptance(self.bundle)
        except CheckpointError as error:
            raise self._fault_of_bundle(error) from error

    def _try(self, layers: int, worth: "MeasuredAcceptance") -> "_Trial":
        make = self._load_named(layers)
        return _Trial(layers, worth, self._time(make), make)

    def time_level(self, layers: int) -> float:
        """Seconds of a drafted level at this depth, infinite where it drafts nothing without draft state and so cannot
        be timed; the weights are loaded for it. Raises TooLargeError where they do not fit into memory, BundleError
        where the bundle cannot run so."""
        from client.drafting.depth import drafts_without_state

        make = self._load_named(layers)
        return self._time(make) if drafts_without_state(make(), self.vocab_size) else math.inf

    def _time(self, make: "DrafterFactory") -> float:
        from client.drafting.depth import level_seconds

        return level_seconds(make(), self.vocab_size, time.perf_counter)

    def _load_named(self, layers: int) -> "DrafterFactory":
        """At a depth that the bundle names."""
        from common.models.errors import CheckpointError

        try:
            return self._load(layers)
        except CheckpointError:
            raise  # the device or the dtype that a person chose may be at fault
        except MisuseError as error:
            raise self._fault_of_bundle(error) from error

    def _fault_of_bundle(self, error: MisuseError) -> BundleError:
        return damage_of(self.bundle, self.manifest) or BundleError(
            f"the bundle of the draft model '{self.manifest.draft}' cannot be used as its server sent it: {error}"
        )


@contextmanager
def _reporting_damage(bundle: Path, manifest: BundleManifest) -> Iterator[None]:
    """A checkpoint that cannot be used may have been damaged since it was fetched; then a pull repairs it."""
    from common.models.errors import CheckpointError

    try:
        yield
    except CheckpointError as error:
        damage = damage_of(bundle, manifest)
        if damage is None:
            raise
        raise damage from error
