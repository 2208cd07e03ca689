"""Exporters: draft state of tokens that the target has processed, one exporter for each kind of draft state.

What may live here: reading the target's K/V pool by slot. It may not know sessions, windows, encoding or drafters.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

import torch

from common.draft_models.directory import read_draft_kind
from common.draft_models.lsa import StateMixer
from common.draft_models.moa import load_lsa, read_moa_config
from common.models.key_values import KeyValuePool
from common.models.packed import PackedModel
from common.protocol.draft_state import FUSED, HIDDEN, KEY_VALUES, LAST, LSA


class StateExporter(Protocol):
    kind: str
    shape: tuple[int, ...]  # of one position
    taps: tuple[int, ...]  # of the pool, whose hidden states it reads

    def export(self, pool: KeyValuePool, slots: torch.Tensor) -> torch.Tensor:
        """Float32 `[count, *shape]` for `slots [count]`."""
        ...


class Fuse(Protocol):
    """The server's half of a kind whose draft state is `fused`."""

    out_features: int

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """`[..., out_features]` from the states at the taps, beside each other."""
        ...


class FusingModule(Protocol):
    """What the module of such a kind in `common.draft_models` offers."""

    def load_fuse(self, directory: Path) -> torch.nn.Module:
        """A frozen `Fuse`. Raises CheckpointError where it is not there or broken."""
        ...

    def read_taps(self, directory: Path, layers: int) -> tuple[int, ...]:
        """The layers of a target of `layers` layers whose inputs are fused, from 0; `layers` is what leaves the last.
        Raises CheckpointError where that cannot be."""
        ...


class LsaExporter:
    """All layers' K/V of each token, mixed into one vector (Zimmer et al. 2025, arXiv 2410.03804)."""

    kind = LSA
    taps: tuple[int, ...] = ()

    def __init__(self, lsa: StateMixer, width: int):
        self.shape: tuple[int, ...] = (width,)
        self._lsa = lsa
        self._dtype = next((weights.dtype for weights in lsa.parameters()), torch.float32)

    @torch.inference_mode()
    def export(self, pool: KeyValuePool, slots: torch.Tensor) -> torch.Tensor:
        layers = len(pool.keys_KSD)
        held = pool.read_last(layers, slots).view(len(slots), layers, -1)
        state: torch.Tensor = self._lsa(held.to(self._dtype))
        return state.float()


class HiddenExporter:
    """The last hidden state after the final norm, for drafts such as EAGLE and Medusa."""

    kind = HIDDEN
    taps: tuple[int, ...] = ()

    def __init__(self, hidden_size: int):
        self.shape: tuple[int, ...] = (hidden_size,)

    def export(self, pool: KeyValuePool, slots: torch.Tensor) -> torch.Tensor:
        if pool.hidden_SE is None:
            raise RuntimeError("the target's pool keeps no hidden states")
        return pool.hidden_SE.index_select(0, slots).float()


class FusedExporter:
    """Hidden states of several layers, fused into one vector by a linear map, as EAGLE-3's (Li et al. 2025, arXiv
    2503.01840)."""

    kind = FUSED

    def __init__(self, fuse: Fuse, taps: Sequence[int]):
        """`taps`: the pool's, in the order in which `fuse` takes them."""
        self.shape: tuple[int, ...] = (fuse.out_features,)
        self._fuse = fuse
        self.taps: tuple[int, ...] = tuple(taps)

    @torch.inference_mode()
    def export(self, pool: KeyValuePool, slots: torch.Tensor) -> torch.Tensor:
        if not pool.taps_SE.keys() >= set(self.taps):
            raise RuntimeError("the target's pool keeps no hidden states of these layers")
        states = [pool.taps_SE[tap].index_select(0, slots) for tap in self.taps]
        fused = self._fuse(torch.cat(states, dim=-1))
        return fused.float()


class KeyValueExporter:
    """K/V of the last `layers` layers, in the order of layers, for target-layer inference."""

    kind = KEY_VALUES
    taps: tuple[int, ...] = ()

    def __init__(self, layers: int, key_width: int):
        self.shape: tuple[int, ...] = (layers, 2, key_width)
        self._layers = layers

    def export(self, pool: KeyValuePool, slots: torch.Tensor) -> torch.Tensor:
        return pool.read_last(self._layers, slots).view(len(slots), *self.shape).float()


class LastKeyValuesExporter:
    """K/V of the last layer, for drafts that attend to them."""

    kind = LAST
    taps: tuple[int, ...] = ()

    def __init__(self, key_width: int):
        self.shape: tuple[int, ...] = (2 * key_width,)

    def export(self, pool: KeyValuePool, slots: torch.Tensor) -> torch.Tensor:
        return pool.read_last(1, slots).flatten(1).float()


def load_exporter(state: str, directory: Path, target: PackedModel) -> StateExporter:
    """The exporter of draft state of the kind `state` for the draft in `directory`, on the target's device and in its
    dtype. Raises CheckpointError where the weights that it needs are missing or broken."""
    return _LOADERS[state](directory, target)


def taps_of(state: str | None, directory: Path, layers: int) -> tuple[int, ...]:
    """The taps that the pool of a target of `layers` layers must have for draft state of the kind `state`, as the draft
    in `directory` reads it. Raises CheckpointError where its configuration names what cannot be."""
    return _fusing(directory).read_taps(directory, layers) if state == FUSED else ()


def _load_lsa(directory: Path, target: PackedModel) -> StateExporter:
    lsa = load_lsa(directory).to(target.model.device, target.model.dtype)
    return LsaExporter(lsa, read_moa_config(directory).sent_width)


def _load_hidden(directory: Path, target: PackedModel) -> StateExporter:
    return HiddenExporter(target.model.config.hidden_size)


def _load_fused(directory: Path, target: PackedModel) -> StateExporter:
    fusing = _fusing(directory)
    fuse = fusing.load_fuse(directory).to(target.model.device, target.model.dtype)
    return FusedExporter(cast(Fuse, fuse), fusing.read_taps(directory, target.model.config.num_hidden_layers))


def _fusing(directory: Path) -> FusingModule:
    return cast(FusingModule, importlib.import_module(f"common.draft_models.{read_draft_kind(directory).name}"))


def _load_last_key_values(directory: Path, target: PackedModel) -> StateExporter:
    return LastKeyValuesExporter(next(iter(target.pool.widths)))


_LOADERS: Mapping[str, Callable[[Path, PackedModel], StateExporter]] = {
    LSA: _load_lsa,
    HIDDEN: _load_hidden,
    FUSED: _load_fused,
    LAST: _load_last_key_values,
}
"""For each kind of draft state that a draft kind may need; K/V follow from the target layers that a draft runs."""
