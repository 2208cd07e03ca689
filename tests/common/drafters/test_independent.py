"""The independent drafter proposes its model's likeliest tokens, and computes no token twice."""

import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from common.drafters import tree_drafter
from common.drafters.best_first import Expansion
from common.drafters.independent import IndependentNetwork
from common.drafters.load import DrafterConfig, load_drafter
from common.drafters.tree_drafter import TreeDrafter
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.protocol.messages import Finished, FinishReason, Settings, StateRequest
from common.protocol.sampling import Sampling
from common.protocol.views import TreeView
from tests.common.drafters.growing import Growing
from tests.families import make_checkpoint

VOCAB = 300
PROMPT = [11, 45, 7, 201, 99, 45, 7]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return make_checkpoint(tmp_path_factory.mktemp("draft"), "llama", vocab=VOCAB)


def drafter_of(checkpoint, **bounds):
    model = PackedModel(load_causal_lm(checkpoint, dtype=torch.float64), 2048)
    return TreeDrafter(IndependentNetwork(model, VOCAB), Expansion(least_probability=1e-9, **bounds))


@pytest.fixture(scope="module")
def model(checkpoint):
    """As transformers runs it."""
    return load_causal_lm(checkpoint, dtype=torch.float64)


@torch.inference_mode()
def log_probabilities(model, sequence):
    return torch.log_softmax(model(torch.tensor([sequence])).logits[0, -1], dim=-1)


@pytest.mark.parametrize("seed", range(4))
def test_proposals_carry_the_models_own_log_probabilities_whatever_was_committed(checkpoint, model, seed):
    draw = random.Random(seed)
    growing = Growing(drafter_of(checkpoint, breadth=4, nodes=40), PROMPT, VOCAB)
    for _ in range(12):
        for path, proposal in growing.draft():
            expected = log_probabilities(model, path)[proposal.token].item()
            assert proposal.logp == pytest.approx(expected, abs=1e-5)
        root = growing.session.tree.root
        drafted = [] if not root.children else [draw.choice(list(root.children))]
        growing.commit(draw.choice([drafted, [*drafted, draw.randrange(VOCAB)]]) or [draw.randrange(VOCAB)])


def test_no_token_is_computed_twice(checkpoint):
    draw = random.Random(1)
    drafter = drafter_of(checkpoint, breadth=3, nodes=30)
    growing = Growing(drafter, PROMPT, VOCAB)
    proposed = undrafted = 0
    for _ in range(30):
        proposed += len(growing.draft())
        root = growing.session.tree.root
        if root.children and draw.random() < 0.7:
            growing.commit([draw.choice(list(root.children))])
        else:
            undrafted += 1
            growing.commit([draw.randrange(VOCAB)])
    assert drafter.computed <= len(PROMPT) + proposed + undrafted


def test_the_first_level_is_the_models_likeliest_tokens(checkpoint, model):
    growing = Growing(drafter_of(checkpoint, breadth=4), PROMPT, VOCAB)
    best = torch.topk(log_probabilities(model, PROMPT), 4).indices.tolist()
    assert [proposal.token for _, proposal in growing.draft()] == best


@pytest.mark.parametrize("chunk", [1, 7, 29])
def test_a_prompt_is_read_in_pieces(checkpoint, monkeypatch, chunk):
    prompt = list(range(40, 70))
    whole = Growing(drafter_of(checkpoint), prompt, VOCAB).draft()
    monkeypatch.setattr(tree_drafter, "_CHUNK", chunk)
    drafter = drafter_of(checkpoint)
    pieces = Growing(drafter, prompt, VOCAB).draft()
    assert drafter.computed == len(prompt)
    assert [(each.token, pytest.approx(each.logp, abs=1e-5)) for _, each in pieces] == [
        (each.token, each.logp) for _, each in whole
    ]


def test_a_rewritten_history_costs_only_what_changed(checkpoint, model):
    drafter = drafter_of(checkpoint)
    growing = Growing(drafter, list(range(100)), VOCAB)
    growing.draft()
    growing.commit([5])
    growing.session.receive(Finished(0, 101, FinishReason.END))
    before = drafter.computed
    growing.session.extend(90, [200, 201, 202], Settings(10))
    drafted = growing.draft()
    assert drafter.computed - before == 3
    expected = log_probabilities(model, drafted[0][0])[drafted[0][1].token].item()
    assert drafted[0][1].logp == pytest.approx(expected, abs=1e-5)


def test_a_repeated_turn_drafts_again_from_the_same_root(checkpoint):
    growing = Growing(drafter_of(checkpoint), PROMPT, VOCAB)
    first = growing.draft()
    growing.session.receive(Finished(0, len(PROMPT), FinishReason.CANCELLED))
    growing.session.extend(len(PROMPT), [], Settings(10))
    assert growing.draft() == first


def test_the_tree_never_exceeds_its_bound(checkpoint):
    growing = Growing(drafter_of(checkpoint, breadth=8, nodes=20), PROMPT, VOCAB)
    for _ in range(10):
        growing.draft()
    assert len(growing.session.tree) == 20
    assert growing.draft() == []


def test_a_padded_vocabulary_is_cut_to_the_targets(checkpoint):
    model = PackedModel(load_causal_lm(checkpoint, dtype=torch.float64), 2048)
    drafter = TreeDrafter(IndependentNetwork(model, 50), Expansion(breadth=8, children=8, least_probability=1e-9))
    growing = Growing(drafter, PROMPT[:3], 50)
    drafted = [proposal for _ in range(3) for _, proposal in growing.draft()]
    assert len(drafted) == 24
    assert all(proposal.token < 50 for proposal in drafted)


class OneWay:
    """Allows everything, and says that behind any token 9 alone may come."""

    def allowed(self, answer):
        return np.ones(VOCAB, dtype=bool)

    def forced(self, answer, most):
        return (9,)[:most]


@pytest.mark.parametrize(
    ("rule", "draws_once", "brings"), [("coupled", True, 1), ("speculative", False, 1), ("speculative", True, 0)]
)
def test_forced_tokens_do_not_hold_up_siblings_that_were_drawn(checkpoint, rule, draws_once, brings):
    """To ask what is forced takes a time that depends on what was drawn."""
    drafter = drafter_of(checkpoint, breadth=2, children=2, draws_once=draws_once)
    view = TreeView(
        tuple(PROMPT), (), rule=rule, sampling=Sampling(1.0), constraint=OneWay(), prompt_length=len(PROMPT)
    )
    proposals = drafter.draft(view)
    assert [each.parent < 0 for each in proposals].count(True) == 2 * brings
    assert [each.parent for each in proposals].count(0) == 2


def test_slots_are_given_back(checkpoint):
    drafter = drafter_of(checkpoint, nodes=30)
    growing = Growing(drafter, PROMPT, VOCAB)
    for token in range(40):
        growing.draft()
        growing.commit([token])
    growing.draft()
    held = len(growing.session.tree.tokens) + 30
    assert drafter._slots.capacity - drafter._slots.free <= held


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's files about this process")
def test_a_long_context_takes_memory_only_as_it_is_filled(checkpoint):
    """The K/V of the whole context would be 3 GB."""
    drafter = load_drafter(
        "independent", DrafterConfig(checkpoint, "cpu", "float32", 8 << 20, VOCAB, StateRequest("independent"))
    )
    assert drafter._network._model.pool.nbytes > 1 << 31
    resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096
    assert resident < 1 << 31


def test_a_token_beyond_the_drafts_vocabulary_does_not_end_drafting(checkpoint):
    """Checkpoints of one tokenizer may be padded to different sizes."""
    drafter = drafter_of(checkpoint)
    assert drafter.draft(TreeView((*PROMPT, VOCAB + 70), ()))
    assert drafter.draft(TreeView((*PROMPT, VOCAB + 70, 5), ()))
