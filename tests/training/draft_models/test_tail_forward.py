"""The target's last layers over predictions and received K/V are what the target itself computes of one sequence, in
every family, and a moa draft begins to train for it."""

import errno
import os
from functools import cache, partial

import numpy as np
import pytest
import torch
from transformers import DynamicCache

from common.draft_models.tail import load_tail, write_tail
from common.models.checkpoint import load_causal_lm
from common.models.parts import head_of, layers_of
from common.protocol.errors import MisuseError, OutriderError
from netem.experiments.family_checkpoints import FAMILIES, LAYERS, VOCABULARY, make_family_checkpoint
from training.draft_models import tail_forward
from training.draft_models.batches import to_batch
from training.draft_models.chat import Sample
from training.draft_models.features import features, load_target, stack_key_values
from training.draft_models.recipe import Moment
from training.draft_models.recipes.moa import build
from training.draft_models.tail_forward import TwoSources, through_tail

COLUMNS = 24
LATENT = "deepseek-v3"
ROUNDING = 1e-4
"""Some families compute norms and softmax in float32."""


def test_a_full_temporary_folder_is_one_sentence(checkpoints, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = load_target(str(checkpoints("llama")), torch.device("cpu"), "float32")
    monkeypatch.setattr(tail_forward, "write_tail", full)
    with pytest.raises(OutriderError, match=r"^a temporary copy [^\n]+: No space left on device; [^\n]+ TMPDIR$"):
        tail_forward.frozen_tail(target, 1)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    @cache
    def make(family):
        return make_family_checkpoint(tmp_path_factory.mktemp("families") / family, FAMILIES[family])

    return make


@pytest.fixture(scope="module")
def targets(checkpoints):
    return cache(lambda family: load_causal_lm(checkpoints(family), dtype=torch.float64))


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("family", [name for name in FAMILIES if name != LATENT])
@torch.inference_mode()
def test_known_keys_and_predicted_ones_act_as_one_sequence(tmp_path, family, layers, checkpoints, targets):
    write_tail(checkpoints(family), layers, tmp_path / "tail")
    target = targets(family)
    torch.manual_seed(0)
    tokens = torch.randint(3, VOCABULARY, (2, COLUMNS))
    entering = []

    def enter(_, given, named, hidden=None):
        """Notes what enters the tail's first layer, or puts `hidden` in its place."""
        entering.append(given[0] if given else named["hidden_states"])
        if hidden is not None:
            return ((hidden, *given[1:]), named) if given else (given, named | {"hidden_states": hidden})
        return None

    first = layers_of(target)[LAYERS - layers]
    cache = DynamicCache()
    with first.register_forward_pre_hook(enter, with_kwargs=True):
        target(tokens, past_key_values=cache, use_cache=True)
    newest = COLUMNS // 2
    columns = torch.arange(COLUMNS)
    predicted = entering[0] + torch.randn_like(entering[0])
    mixed = torch.where((columns <= newest)[None, :, None], entering[0], predicted)
    with first.register_forward_pre_hook(partial(enter, hidden=mixed), with_kwargs=True):
        due = target(tokens, use_cache=False).logits
    causal = (columns[None] <= columns[:, None]).expand(2, -1, -1)
    sees_known = causal & (columns <= newest)
    tail = load_tail(tmp_path / "tail", layers, "cpu", torch.float64)
    sources = TwoSources(stack_key_values(cache)[-layers:], sees_known, causal & ~sees_known)
    out = head_of(tail)(through_tail(tail, predicted, sources))
    torch.testing.assert_close(out[:, newest + 1 :], due[:, newest + 1 :], rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("family", ["gemma2", "gpt-oss", "granite", "cohere", "phi3"])
def test_a_draft_begins_to_train_for_it(family, checkpoints):
    target = load_target(str(checkpoints(family)), torch.device("cpu"), "float32")
    recipe = build(target, layers=(0, 2))
    ids = np.arange(3, 3 + COLUMNS, dtype=np.int32)
    batch = to_batch([Sample(ids, ids > 8)])
    parts = recipe.loss(batch, features(target, batch, recipe.needs), Moment(0, 10))
    parts.total.backward()
    assert all(parameter.grad is not None for parameter in recipe.drafts[2].parameters())


def test_latent_attention_is_refused_when_the_draft_is_made(checkpoints):
    target = load_target(str(checkpoints(LATENT)), torch.device("cpu"), "float32")
    with pytest.raises(MisuseError, match=r"which have different widths in deepseek-v3 \(72 and 96 numbers a layer\)"):
        build(target, layers=(0, 1))
