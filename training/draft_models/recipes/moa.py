"""`moa`: Mixture of Attentions for any target, in one forward per batch; the published form is `published=True`.

What may live here: the losses, evaluation and saving of this kind. It may not know data, schedules or the loop.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import kl_div, log_softmax, smooth_l1_loss

from common.draft_models.exporters import KeyValueExporter, LsaExporter, StateExporter
from common.draft_models.layers import masked_attention
from common.draft_models.moa import KIND, MoaConfig, MoaDraft, make_lsa, save_moa
from common.draft_models.vocabulary import trim_head
from common.drafters.drafter import Drafter
from common.drafters.load import SPARE_SLOTS
from common.drafters.moa import MoaNetwork
from common.drafters.tree_drafter import TreeDrafter
from common.protocol.errors import MisuseError
from common.protocol.messages import StateRequest
from training.draft_models.exact_text import percent
from training.draft_models.features import FrozenTarget
from training.draft_models.held_out_rounds import answer_all
from training.draft_models.lags import PUBLISHED, LagSettings, Received, causal, draw_received, lag_settings
from training.draft_models.mixed_states import mixed_states
from training.draft_models.recipe import (
    Batch,
    Evaluation,
    FeatureNeeds,
    Features,
    LossParts,
    Moment,
    RoundsSize,
    Tuning,
)
from training.draft_models.recipes.moa_sizes import default_size, moa_config, warm_start, with_codec
from training.draft_models.recipes.moa_start import described_start, start_from, started_config
from training.draft_models.straight_through import as_sent
from training.draft_models.tail_forward import TwoSources, frozen_tail, through_tail
from training.draft_models.token_counts import TokenCounts

# Shape letters: R rows, T columns, P learned positions, L target layers, W state width, E hidden size, V vocabulary.


@dataclass(frozen=True)
class MoaLossWeights:
    """The weights of the divergence from the target's distribution, and of the distance to its hidden states."""

    divergence: float = 1.0
    distance: float = 0.1


DEPTHS = (0, 1, 3)
PUBLISHED_WEIGHTS = MoaLossWeights(divergence=0.1, distance=1.0)


class MoaRecipe:
    kind = KIND

    def __init__(
        self,
        target: FrozenTarget,
        config: MoaConfig,
        start: Path | None,
        published: bool,
        missing: float,
        alone: float,
        draft_vocabulary: int | None,
    ):
        """`start`: a finished draft of this kind to start from; None for the target's own layers. `published` trains
        with the paper's losses and sync points, from random weights. In a share `missing` of samples the state of a
        span of the prompt is missing, in a share `alone` all state behind a random position. `draft_vocabulary`:
        tokens that the draft may propose, the most frequent ones; None for all.

        Raises MisuseError for values that are no share.
        """
        self._lags = lag_settings(missing, alone, PUBLISHED if published else LagSettings())
        self.config = config
        depths = config.depths
        self.needs = FeatureNeeds(key_values=True, hidden=tuple(sorted({0, *depths})), logits=True)
        self.tuning = Tuning(rate=3e-3)
        self.lsa = make_lsa(self.config)
        self.drafts = {depth: MoaDraft(self.config, depth) for depth in depths}
        halves = nn.ModuleDict({str(depth): draft for depth, draft in self.drafts.items()})
        self.counts = TokenCounts(target.config.vocab_size, draft_vocabulary, target.end_tokens)
        self.module = nn.ModuleDict({"lsa": self.lsa, "drafts": halves, "counts": self.counts})
        self._target = target
        self._published = published
        self._weights = PUBLISHED_WEIGHTS if published else MoaLossWeights()
        self._tails = {depth: frozen_tail(target, depth) for depth in depths}
        self._origin = "random weights" if published else "the target's layers"
        if start is not None:
            self._origin = described_start(start)
            start_from(start, self.lsa, self.drafts)
        elif not published:
            for depth, draft in self.drafts.items():
                warm_start(draft, target, depth)

    def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
        assert features.key_values is not None
        assert features.logits is not None
        self.counts.add(batch)
        received = draw_received(batch, self._lags)
        states = mixed_states(self.lsa, batch, features.key_values, moment)
        if self.config.codec is not None:
            states = as_sent(states, self.config.codec.dtype)
        sees = causal(batch.ids)
        # The paper's curriculum: at first self-attention often sees only what the state does not cover.
        if self._published and torch.rand(()) >= 2 * moment.share:
            sees = received.since_sync
        wanted = log_softmax(features.logits.float(), dim=-1)
        divergences, distances = [], []
        for depth, draft in self.drafts.items():
            predicted = self._predict(draft, batch, states, sees, received)
            final = predicted
            distance = _distance(predicted, features.hidden[depth], batch.learn)
            if depth:
                final = self._run_tail(depth, predicted, features, received)
                distance = 0.5 * distance + 0.5 * _distance(final, features.hidden[0], batch.learn)
            given = log_softmax(self._target.head(final[batch.learn]).float(), dim=-1)
            divergences.append(kl_div(given, wanted, reduction="batchmean", log_target=True))
            distances.append(distance)
        divergence, distance = torch.stack(divergences).mean(), torch.stack(distances).mean()
        total = self._weights.divergence * divergence + self._weights.distance * distance
        by_depth = zip(self.drafts, divergences, strict=True)
        return LossParts(total, {f"kl n={depth}": each.detach() for depth, each in by_depth})

    def _predict(
        self, draft: MoaDraft, batch: Batch, states: torch.Tensor, sees: torch.Tensor, received: Received
    ) -> torch.Tensor:
        """The input of the target's last N layers, `[R, T, E]`."""
        positions = torch.arange(batch.ids.shape[1], device=batch.ids.device).expand_as(batch.ids)
        read = draft.read(self._target.embedding(batch.ids), positions, masked_attention(sees[:, None]))
        keys_values = draft.ca.keys_values(draft.project_states(states), positions)
        return draft.look_back(read, positions, masked_attention(received.seen[:, None]), keys_values)

    def _run_tail(self, depth: int, predicted: torch.Tensor, features: Features, received: Received) -> torch.Tensor:
        assert features.key_values is not None
        every = causal(received.newest)
        if self._published:
            # The true hidden states stand in at sync points; every query sees whatever lies before it.
            predicted = torch.where(received.sync[..., None], features.hidden[depth].to(predicted.dtype), predicted)
            known = torch.zeros_like(received.seen)
        else:
            known = received.seen
        sources = TwoSources(features.key_values[-depth:], known, every & ~known)
        return through_tail(self._tails[depth], predicted, sources)

    def evaluate(self, prompts: Sequence[Sequence[int]], size: RoundsSize) -> Evaluation:
        answers = {
            depth: answer_all(
                self._target,
                partial(self._drafter, depth),
                self._exporters(depth),
                prompts,
                size,
                dtype=self.config.sent_dtype,
            )
            for depth in self.drafts
        }
        return Evaluation(answers)

    def save(self, out: Path) -> None:
        drafts = {depth: copy.deepcopy(draft).bfloat16() for depth, draft in self.drafts.items()}
        lsa = copy.deepcopy(self.lsa).bfloat16()
        save_moa(out, self._target.fingerprint, self.config, drafts, lsa, self.counts.kept())

    def describe(self) -> Mapping[str, str]:
        return {
            "form": "as published" if self._published else "ours",
            "target layers N": ", ".join(map(str, self.drafts)),
            "feed-forward parts": f"{self.config.sa.intermediate:,} wide for each N",
            "starts from": self._origin,
            "draft vocabulary": self.counts.describe(),
            "states": f"{self.config.mixer}, {self.config.sent_width} numbers in {self.config.sent_dtype}"
            + ("" if self.config.codec is None else ", a learnt codec"),
            "samples that lack a span of state": percent(self._lags.missing),
            "samples whose state stops for good": percent(self._lags.alone),
        }

    def _drafter(self, depth: int, context: int) -> Drafter:
        target, request, kept = self._target, StateRequest("trained", layers=depth), self.counts.kept()
        draft = copy.deepcopy(self.drafts[depth]).to(target.model.dtype)
        head = trim_head(target.head, kept)
        return TreeDrafter(MoaNetwork(draft, self._tails[depth], head, request, context, SPARE_SLOTS, kept))

    def _exporters(self, depth: int) -> list[StateExporter]:
        lsa = copy.deepcopy(self.lsa).to(self._target.model.dtype)
        exporters: list[StateExporter] = [LsaExporter(lsa, self.config.sent_width)]
        return [*exporters, KeyValueExporter(depth, self._target.key_value_size)] if depth else exporters


def build(
    target: FrozenTarget,
    layers: Sequence[int] | None = None,
    size: float | None = None,
    mixer: str | None = None,
    published: bool = False,
    missing: float = 0.0,
    alone: float = 0.0,
    draft_vocabulary: int | None = None,
    state_width: int | None = None,
    state_dtype: str | None = None,
    start: Path | None = None,
) -> MoaRecipe:
    """As `MoaRecipe`. `layers` are the numbers N of target layers that the draft will run below, each with a client's
    half of its own; `size` its trainable parameters for one N, in layers of the target. `mixer` makes the states: the
    published form attends over layers, ours mixes them. `state_width` and `state_dtype` are the rate of a learnt codec;
    without them there is none.

    Raises MisuseError for layers that the target does not have, an impossible rate, and sizes beside `start`.
    """
    if start is None:
        mixer = mixer or ("attention" if published else "mixture")
        size = default_size(target, mixer) if size is None else size
        config = moa_config(target, tuple(DEPTHS if layers is None else layers), size, mixer, not published)
    elif size is not None or mixer is not None or published:
        raise MisuseError("--start-from brings its own sizes and form; leave out --size, --mixer and --published")
    else:
        config = started_config(start, target.fingerprint, layers)
    if state_width is not None or state_dtype is not None:
        config = with_codec(config, state_width, state_dtype)
    return MoaRecipe(target, config, start, published, missing, alone, draft_vocabulary)


def _distance(predicted: torch.Tensor, wanted: torch.Tensor, learn: torch.Tensor) -> torch.Tensor:
    return smooth_l1_loss(predicted[learn].float(), wanted[learn].float())
