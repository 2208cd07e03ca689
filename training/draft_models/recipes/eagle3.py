"""`eagle3`: EAGLE-3's layer, trained on its own output over several steps ("training-time test", Li et al. 2025, arXiv
2503.01840), with the target's distribution as its goal and, unlike the paper's, the fused states that it replaces.

What may live here: the loss, evaluation and saving of this kind. It may not know data, schedules or the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import log_softmax, pad, smooth_l1_loss, softmax

from common.draft_models.eagle3 import KIND, TAPS, Eagle3Config, Eagle3Draft, Eagle3Fuse, default_taps, save_eagle3
from common.draft_models.exporters import FusedExporter
from common.drafters.drafter import Drafter
from common.drafters.eagle3 import eagle3_source
from common.drafters.feature_network import FeatureNetwork
from common.drafters.load import SPARE_SLOTS
from common.drafters.tree_drafter import TreeDrafter
from common.models.parts import projection_of
from common.protocol.errors import MisuseError
from common.protocol.messages import StateRequest
from training.draft_models.exact_text import figure
from training.draft_models.features import FrozenTarget
from training.draft_models.feedback import FeedbackAttention
from training.draft_models.held_out_rounds import answer_all
from training.draft_models.layer_sizes import target_layer
from training.draft_models.recipe import Batch, Evaluation, Features, LossParts, Moment, RoundsSize, Tuning
from training.draft_models.taps import needs_of, tapped
from training.draft_models.token_counts import TokenCounts

# Shape letters: R rows, T columns, P learned positions, E hidden size, V vocabulary.

FEEDBACK_STEPS = 7
"""How often the layer runs, the first time on the target's states and then on its own output; the authors' number."""

STEP_DECAY = 0.8
"""The weight of each step's loss in that of the one before, the authors' too."""

FEATURE_WEIGHT = 1.0
"""Outputs near the states in whose place they stand make one task of all steps, which a short training needs."""

FEEDBACK_GROWS = 0.75
"""The share of a run in which the number of steps grows from 1. A layer that predicts nothing yet feeds back noise."""

DRAFT_VOCABULARY = 32_000
"""The most tokens that a draft may propose unless it is said; the authors' number for a vocabulary of 128,256."""

_OWN_SCORE = 9.0
"""Of a row with itself at the start, before the softmax: enough to stand out among some hundred rows."""


class Eagle3Recipe:
    kind = KIND

    def __init__(
        self,
        target: FrozenTarget,
        feedback_steps: int = FEEDBACK_STEPS,
        feature_weight: float = FEATURE_WEIGHT,
        intermediate: int | None = None,
        kv_heads: int | None = None,
        draft_vocabulary: int | None = None,
    ):
        """`feature_weight`: of the smooth-L1 distance of a row's output to the fused state in whose place it stands, 0
        for the published loss. `intermediate`: width of the layer's feed-forward part, `kv_heads`: its key/value heads,
        by default the target's. `draft_vocabulary`: tokens that the draft may propose, the most frequent ones; by
        default 32,000, or the target's if it has fewer.

        The head trains over all tokens, from the target's, and is trimmed when the text has been counted. Raises
        MisuseError for values that make no draft.
        """
        if feedback_steps < 1 or (intermediate is not None and intermediate < 1):
            raise MisuseError("--feedback-steps and --intermediate must be at least 1")
        if feature_weight < 0:
            raise MisuseError(f"--feature-weight must not be below 0, as {feature_weight:g} is")
        config = target.config
        layers, vocabulary = config.num_hidden_layers, config.vocab_size
        self.taps = learned_taps(layers)
        self.needs = needs_of(target, self.taps)
        self.tuning = Tuning(rate=2e-3)
        shape = replace(target_layer(target, input_norm=False), attention_bias=False)
        kv_heads = shape.kv_heads if kv_heads is None else kv_heads
        if kv_heads < 1 or shape.heads % kv_heads:
            raise MisuseError(f"--kv-heads must divide the target's {shape.heads} heads, which {kv_heads} does not")
        shape = replace(shape, intermediate=intermediate or shape.intermediate, kv_heads=kv_heads)
        self.draft = Eagle3Draft(Eagle3Config(shape, vocabulary, vocabulary))
        with torch.no_grad():
            self.draft.get_parameter("head.weight").copy_(projection_of(target.head).get_parameter("weight"))
        _attend_to_own_token(self.draft)
        self.fuse = Eagle3Fuse(TAPS * config.hidden_size, config.hidden_size)
        _begin_with_last_tap(self.fuse)
        size = min(DRAFT_VOCABULARY, vocabulary) if draft_vocabulary is None else draft_vocabulary
        self.counts = TokenCounts(vocabulary, None if size == vocabulary else size, target.end_tokens)
        self.module = nn.ModuleDict({"draft": self.draft, "fuse": self.fuse, "counts": self.counts})
        self._target = target
        self._steps = feedback_steps
        self._feature_weight = feature_weight

    def loss(self, batch: Batch, features: Features, moment: Moment) -> LossParts:
        if features.logits is None:
            raise RuntimeError("the target's logits were not computed")
        self.counts.add(batch)
        likely = softmax(features.logits.float(), dim=-1)
        rows, positions = batch.learn.nonzero(as_tuple=True)
        losses: list[torch.Tensor] = []
        metrics: dict[str, torch.Tensor] = {}
        steps = steps_at(moment.share, self._steps)
        fused = self._fused(features)
        wanted = fused.detach()[rows, positions].float()
        for step, out in enumerate(self._outputs(batch, fused, steps)):
            # The token behind position p is predicted by row p - 1, which is column p - 1 - step of this step.
            columns = positions - 1 - step
            within = columns >= 0
            count = within.sum().clamp(min=1)
            predicted = out[rows[within], columns[within]]
            logits = self.draft.logits(predicted, self._target.head).float()
            soft = -(likely[within] * log_softmax(logits, dim=-1)).sum() / count
            distance = smooth_l1_loss(predicted.float(), wanted[within], reduction="none").mean(-1).sum() / count
            losses.append(soft + self._feature_weight * distance)
            if not step:
                metrics |= {"soft": soft.detach(), "smooth_l1": distance.detach()}
            metrics[f"agreement {step + 1}"] = (logits.argmax(-1) == likely[within].argmax(-1)).sum() / count
        weights = torch.tensor([STEP_DECAY**step for step in range(steps)], device=losses[0].device)
        total = (torch.stack(losses) * weights).sum() / weights.sum()
        return LossParts(total, metrics)

    def evaluate(self, prompts: Sequence[Sequence[int]], size: RoundsSize) -> Evaluation:
        fuse = deepcopy(self.fuse).to(self._target.model.dtype)
        exporters = [FusedExporter(fuse, self.taps)]
        return Evaluation({0: answer_all(self._target, self._drafter, exporters, prompts, size)})

    def save(self, out: Path) -> None:
        kept = self.counts.kept()
        draft, fuse = self._trimmed(kept).to(torch.bfloat16), deepcopy(self.fuse).to(torch.bfloat16)
        save_eagle3(out, self._target.fingerprint, draft, fuse, self.taps, kept)

    def describe(self) -> Mapping[str, str]:
        return {
            "feedback steps": f"1 to {self._steps}, each weighing {STEP_DECAY:g} of the one before",
            "losses": f"soft cross-entropy and {figure(self._feature_weight)} smooth-L1",
            "reads what enters layers": ", ".join(map(str, self.taps)),
            "feed-forward width": str(self.draft.config.layer.intermediate),
            "key/value heads": str(self.draft.config.layer.kv_heads),
            "draft vocabulary": self.counts.describe(),
        }

    def _fused(self, features: Features) -> torch.Tensor:
        """`[R, T, E]`, what the server sends of each token."""
        fused: torch.Tensor = self.fuse(tapped(self._target, features, self.taps))
        return fused

    def _outputs(self, batch: Batch, fused: torch.Tensor, steps: int) -> list[torch.Tensor]:
        """The outputs `[R, T - 1, E]` of each of `steps`: column i of step n is row i + n, computed from the target's
        states up to i and the layer's own output behind."""
        feature = fused[:, :-1]
        with torch.no_grad():
            embedded = self._target.embedding(batch.ids[:, 1:]).float()
        columns = torch.arange(embedded.shape[1], device=embedded.device).expand(len(embedded), -1)
        attention, outputs = FeedbackAttention(), []
        for step in range(steps):
            shifted = pad(embedded[:, step:], (0, 0, 0, min(step, embedded.shape[1])))
            feature = self.draft(self.draft.enter(shifted, feature), columns + step, attention)
            outputs.append(feature)
        return outputs

    def _trimmed(self, kept: torch.Tensor | None) -> Eagle3Draft:
        """A copy whose head has the rows of the `kept` tokens."""
        config = self.draft.config
        trimmed = Eagle3Draft(replace(config, draft_vocabulary=config.vocabulary if kept is None else len(kept)))
        weights = dict(self.draft.state_dict())
        if kept is not None:
            weights["head.weight"] = weights["head.weight"][kept]
        trimmed.load_state_dict(weights)
        return trimmed.to(self.draft.get_parameter("head.weight").device)

    def _drafter(self, context: int) -> Drafter:
        target, kept = self._target, self.counts.kept()
        source = eagle3_source(self._trimmed(kept).to(target.model.dtype), target.embedding, target.head, kept)
        return TreeDrafter(FeatureNetwork(source, StateRequest("trained"), context, SPARE_SLOTS))


def steps_at(share: float, steps: int) -> int:
    """How many of the feedback `steps` run when this share of a run is done."""
    return min(steps, 1 + int(share / FEEDBACK_GROWS * steps))


def learned_taps(layers: int) -> tuple[int, ...]:
    """The layers of a target whose inputs a new draft learns from: the authors' low and middle one, and in place of
    their high one what leaves the last layer, numbered as the layer behind it, of which a short training makes more."""
    low, middle, _ = default_taps(layers)
    return low, middle, layers


@torch.no_grad()
def _begin_with_last_tap(fuse: Eagle3Fuse) -> None:
    """Starts from the last tap as it is, beside torch's own initial weights of all three taps: what the target's head
    reads is one norm on."""
    fuse.weight[:, -fuse.out_features :].diagonal().add_(1.0)


@torch.no_grad()
def _attend_to_own_token(draft: Eagle3Draft) -> None:
    """Starts a third of the key/value heads so that a row looks at its own token: queries and keys read embeddings by
    equal weights.

    The residual holds the feature alone, so that a row sees its own token, the one that the target chose last, through
    its own key and value only. From random weights a row attends to all rows equally and learns that slowly. The other
    heads must be free: with all of them on its own token a layer never learns to copy from earlier text.
    """
    layer, shape, hidden = draft.layer, draft.config.layer, draft.config.hidden
    # The score of an embedding of norm sqrt(hidden) with itself is then `_OWN_SCORE` in the mean.
    width = (_OWN_SCORE / (shape.head_dim**0.5 * hidden)) ** 0.5
    own, queries = max(1, shape.kv_heads // 3), shape.heads // shape.kv_heads
    keys = torch.randn(own, shape.head_dim, hidden) * width
    layer.k_proj.weight[: own * shape.head_dim, :hidden] = keys.flatten(0, 1)
    layer.q_proj.weight[: own * queries * shape.head_dim, :hidden] = keys.repeat_interleave(queries, 0).flatten(0, 1)


def build(
    target: FrozenTarget,
    feedback_steps: int = FEEDBACK_STEPS,
    feature_weight: float = FEATURE_WEIGHT,
    intermediate: int | None = None,
    kv_heads: int | None = None,
    draft_vocabulary: int | None = None,
) -> Eagle3Recipe:
    """As `Eagle3Recipe`."""
    return Eagle3Recipe(target, feedback_steps, feature_weight, intermediate, kv_heads, draft_vocabulary)
