"""Draws which draft state a draft model has received when it predicts a token: sync points, lags and missing spans.

What may live here: drawing them, and their masks. It may not know networks, losses or the target.

Mixture of Attentions (Zimmer et al. 2025) trains on-policy in one forward: every answer is cut at sync points, as if
the target had verified there, and a query sees the draft state up to its latest sync point only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from common.protocol.draft_state import FIRST_POSITIONS
from common.protocol.errors import MisuseError
from training.draft_models.recipe import Batch

# Shape letters: R rows, T columns; a mask [R, T, T] is indexed by query and key.


@dataclass(frozen=True)
class LagSettings:
    """The distribution of lags.

    shortest, longest: a row's sync points are this many tokens apart, drawn log-uniformly or with `uniform` uniformly.
    sees_own: a sync point sees its own state, as published; at inference the newest token never has state. missing: the
    share of rows without the state of one random span of the prompt. alone: the share of rows whose state stops at a
    random position.
    """

    shortest: int = 2
    longest: int = 40
    uniform: bool = False
    sees_own: bool = False
    missing: float = 0.0
    alone: float = 0.0


def lag_settings(missing: float, alone: float, base: LagSettings = LagSettings()) -> LagSettings:
    """`base` with these shares. Raises MisuseError for a value that is no share."""
    for name, share in (("--missing", missing), ("--alone", alone)):
        if not 0 <= share <= 1:
            raise MisuseError(f"{name} must lie between 0 and 1, not {share:g}")
    return replace(base, missing=missing, alone=alone)


PUBLISHED = LagSettings(shortest=6, longest=14, uniform=True, sees_own=True)


@dataclass(frozen=True)
class Received:
    """newest: int64 [R, T], the newest position whose state each query has, -1 for none. held: bool [R, T], positions
    whose state ever arrives. sync: bool [R, T], the sync points and all prompt tokens."""

    newest: torch.Tensor
    held: torch.Tensor
    sync: torch.Tensor

    @property
    def seen(self) -> torch.Tensor:
        """bool [R, T, T]: the keys whose state each query has."""
        keys = torch.arange(self.newest.shape[1], device=self.newest.device)
        return (keys <= self.newest[..., None]) & self.held[:, None]

    @property
    def seen_or_own(self) -> torch.Tensor:
        """bool [R, T, 2T]: of all keys of received states and then all of the draft's own, those that each query
        attends to. It has each token before it, and itself, by one of the two."""
        seen = self.seen
        return torch.cat([seen, causal(self.newest) & ~seen], dim=-1)

    @property
    def since_sync(self) -> torch.Tensor:
        """bool [R, T, T]: the tokens from each query's newest state to itself."""
        keys = torch.arange(self.newest.shape[1], device=self.newest.device)
        return (keys >= self.newest[..., None]) & causal(self.newest)

    @property
    def lags(self) -> torch.Tensor:
        """int64 [R, T], positions from each query back to its newest state."""
        return torch.arange(self.newest.shape[1], device=self.newest.device) - self.newest


def causal(like: torch.Tensor) -> torch.Tensor:
    """bool [1, T, T] for the T columns of `like [R, T]`."""
    columns = like.shape[1]
    return torch.ones(1, columns, columns, dtype=torch.bool, device=like.device).tril()


def draw_received(batch: Batch, settings: LagSettings) -> Received:
    """Draws the received state of every query of the batch, with torch's default generator."""
    rows, columns = batch.ids.shape
    positions = torch.arange(columns, device=batch.ids.device).expand(rows, columns)
    sync = ~batch.answers | (positions % _draw_periods(rows, settings, batch.ids.device)[:, None] == 0)
    held = _draw_held(batch, settings)
    marked = torch.where(sync & held, positions, -1)
    newest = marked.cummax(dim=1).values
    if not settings.sees_own:
        newest = torch.cat([newest.new_full((rows, 1), -1), newest[:, :-1]], dim=1)
    return Received(newest, held, sync)


def _draw_periods(rows: int, settings: LagSettings, device: torch.device) -> torch.Tensor:
    draw = torch.rand(rows, device=device)
    if settings.uniform:
        return settings.shortest + (draw * (settings.longest - settings.shortest + 1)).long()
    ratio = (settings.longest + 1) / settings.shortest
    return (settings.shortest * ratio**draw).long()


def _draw_held(batch: Batch, settings: LagSettings) -> torch.Tensor:
    rows, columns = batch.ids.shape
    device = batch.ids.device
    positions = torch.arange(columns, device=device)
    prompts = (~batch.answers & batch.filled).sum(dim=1)
    lacks = torch.rand(rows, device=device) < settings.missing
    start = (torch.rand(rows, device=device) * prompts).long()
    length = (torch.rand(rows, device=device) * prompts).long() * lacks
    gone = (positions >= start[:, None]) & (positions < (start + length)[:, None])
    # The prompt's first positions are always sent first.
    came = ~gone | batch.answers
    filled = batch.filled.sum(dim=1)
    left_alone = torch.rand(rows, device=device) < settings.alone
    last = torch.where(left_alone, (torch.rand(rows, device=device) * filled).long(), filled)
    return came & (positions <= last[:, None]) | (positions < FIRST_POSITIONS)
