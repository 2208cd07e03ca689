"""The eagle drafter computes what training computed, whatever state has arrived, and keeps the answer exact."""

import copy
from dataclasses import replace

import pytest
import torch

from common.codec import encode
from common.draft_models.eagle import EagleConfig, EagleDraft
from common.draft_models.exporters import HiddenExporter
from common.draft_models.layers import LayerShape, masked_attention
from common.draft_models.vocabulary import trim_head
from common.drafters import tree_drafter
from common.drafters.best_first import Expansion
from common.drafters.eagle import eagle_source
from common.drafters.feature_network import FeatureNetwork
from common.drafters.tree_drafter import TreeDrafter
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.models.segment import Segment
from common.protocol.messages import State, StateRequest
from common.protocol.views import NodeView, TreeView
from common.rounds import Rounds
from tests.common.drafters.scenes import scenes_of
from tests.families import FAMILIES, make_checkpoint
from tests.lossy import LossyChannel

TOKENS = (11, 45, 7, 201, 99, 45, 7, 3, 8, 120, 17, 33)
CONTEXT, HIDDEN, VOCAB = 128, 48, 300
LIMITS = {"children": 5, "breadth": 3, "least_probability": 1e-9}


class Scene:
    """A random target and a random draft, and the target's hidden states of `TOKENS` as they arrive."""

    def __init__(self, folder, family="llama", further=0):
        self.target = load_causal_lm(make_checkpoint(folder / family, family), dtype=torch.float64)
        torch.manual_seed(0)
        layer = LayerShape(HIDDEN, 6, 2, 8, 64, input_norm=False)
        behind = tuple(replace(layer, input_norm=True, sliding_window=4) for _ in range(further))
        self.draft = EagleDraft(EagleConfig(layer, further=behind)).double()
        for parameter in self.draft.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        with torch.no_grad():
            self.hidden = self.target.model(torch.tensor([TOKENS])).last_hidden_state[0].half().double()

    def network(self, kept=None):
        embedding, head = self.target.get_input_embeddings(), trim_head(self.target.lm_head, kept)
        return FeatureNetwork(eagle_source(self.draft, embedding, head, kept), StateRequest("eagle"), CONTEXT, 64)

    def drafter(self, kept=None, **limits):
        return TreeDrafter(self.network(kept), Expansion(**LIMITS | limits))

    def frame(self, start, end):
        values = self.hidden[start:end]
        return State(0, start, end - start, "hidden", "float16", tuple(values.shape), encode(values, "float16"))

    @torch.inference_mode()
    def expected(self, path, known):
        """Log-probabilities behind `path`, row by row: the target's features at `known` positions, own predictions at
        all others."""
        features = torch.zeros(len(path), HIDDEN, dtype=torch.float64)
        for position in known:
            features[position] = self.hidden[position]
        embedded = self.target.get_input_embeddings()(torch.tensor(path))
        out = features
        for length in range(1, len(path)):
            entered = self.draft.enter(embedded[None, 1 : length + 1], features[None, :length])
            distance = torch.arange(length)[:, None] - torch.arange(length)[None]
            windows = [shape.sliding_window or length for shape in self.draft.config.layers]
            attention = [masked_attention((distance >= 0) & (distance < window)) for window in windows]
            out = self.draft(entered, torch.arange(length)[None], *attention)[0, -1]
            if length not in known:
                features[length] = out
        return torch.log_softmax(self.target.lm_head(out).float(), -1)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return scenes_of(Scene, TOKENS, tmp_path_factory)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return Scene(tmp_path_factory.mktemp("eagle"))


@pytest.fixture(scope="module", params=[0, 2], ids=["one layer", "three layers"])
def of_layers(tmp_path_factory, request):
    return Scene(tmp_path_factory.mktemp("eagle"), further=request.param)


def assert_proposed(proposals, parent, logps):
    offered = {each.token: each.logp for each in proposals if each.parent == parent}
    assert offered
    for token, logp in offered.items():
        assert logp == pytest.approx(float(logps[token]), abs=1e-4)


@pytest.mark.parametrize("newest", [11, 10, 9])
def test_the_first_level_is_what_training_saw(of_layers, newest):
    """With the state of all tokens but the root's; then one and two tokens drafted on predictions."""
    drafter, root = of_layers.drafter(), len(TOKENS) - 1
    proposals = drafter.draft(TreeView(TOKENS, ()), [of_layers.frame(0, min(newest, root))])
    assert_proposed(proposals, 0, of_layers.expected(TOKENS, range(min(newest, root))))


def test_levels_are_drafted_from_their_own_predictions(of_layers):
    drafter = of_layers.drafter(breadth=60)
    known = range(11)
    drafter.draft(TreeView(TOKENS, ()), [of_layers.frame(0, 11)])
    one, other = of_layers.expected(TOKENS, known).topk(2).indices.tolist()
    first = (NodeView(1, 0, one, 12, -0.1), NodeView(2, 0, other, 12, -0.2))
    proposals = drafter.draft(TreeView(TOKENS, first))
    assert {each.parent for each in proposals} <= {0, 1, 2}
    behind = [int(of_layers.expected((*TOKENS, token), known).argmax()) for token in (one, other)]
    second = (*first, NodeView(3, 1, behind[0], 13, -0.3), NodeView(4, 2, behind[1], 13, -0.4))
    proposals = drafter.draft(TreeView(TOKENS, second))
    for parent, path in ((1, (one,)), (2, (other,)), (3, (one, behind[0])), (4, (other, behind[1]))):
        if any(each.parent == parent for each in proposals):
            assert_proposed(proposals, parent, of_layers.expected((*TOKENS, *path), known))
    assert {3, 4} & {each.parent for each in proposals}


def test_state_replaces_predictions_as_it_arrives_in_any_order(of_layers):
    """After all state has arrived, the result does not depend on the order or on earlier predictions."""
    drafter = of_layers.drafter()
    view = TreeView(TOKENS, ())
    drafter.draft(view)
    drafter.draft(view, [of_layers.frame(0, 2)])
    drafter.draft(view, [of_layers.frame(8, 11)])
    drafter.draft(view, [of_layers.frame(4, 8), of_layers.frame(8, 9)])
    proposals = drafter.draft(view, [of_layers.frame(2, 4)])
    assert_proposed(proposals, 0, of_layers.expected(TOKENS, range(11)))


def test_a_gap_is_drafted_across_with_predictions(of_layers):
    known = (0, 1, 2, 5, 6, 7, 8, 9, 10)
    frames = [of_layers.frame(0, 3), of_layers.frame(5, 11)]
    proposals = of_layers.drafter().draft(TreeView(TOKENS, ()), frames)
    assert_proposed(proposals, 0, of_layers.expected(TOKENS, known))


@pytest.mark.parametrize("chunk", [1, 4, 10])
@pytest.mark.parametrize("spans", [((0, 3), (5, 11)), ((0, 9),)])
def test_a_prompt_is_read_in_pieces(scene, monkeypatch, spans, chunk):
    """The first may be a token without a row; the next continues from predictions, inside a gap or behind all state."""
    view, frames = TreeView(TOKENS, ()), [scene.frame(*span) for span in spans]
    whole = scene.drafter().draft(view, frames)
    monkeypatch.setattr(tree_drafter, "_CHUNK", chunk)
    drafter = scene.drafter()
    pieces = drafter.draft(view, frames)
    assert drafter.computed == len(TOKENS)
    assert [(each.token, pytest.approx(each.logp, abs=1e-5)) for each in pieces] == [
        (each.token, each.logp) for each in whole
    ]


def test_commits_of_drafted_tokens_go_on_from_their_predictions(scene):
    drafter = scene.drafter()
    start = TOKENS[:8]
    drafter.draft(TreeView(start, ()), [scene.frame(0, 7)])
    node = (NodeView(1, 0, TOKENS[8], 8, -0.1),)
    drafter.draft(TreeView(start, node))
    drafter.draft(TreeView(start, (*node, NodeView(2, 1, TOKENS[9], 9, -0.2))))
    before = drafter.computed
    proposals = drafter.draft(TreeView(TOKENS[:10], ()))
    assert drafter.computed == before
    assert_proposed(proposals, 0, scene.expected(TOKENS[:10], range(7)))
    proposals = drafter.draft(TreeView(TOKENS[:10], ()), [scene.frame(7, 9)])
    assert drafter.computed == before + 1  # the root alone
    assert_proposed(proposals, 0, scene.expected(TOKENS[:10], range(9)))


def test_a_rewritten_history_forgets_its_state(scene):
    drafter = scene.drafter()
    drafter.draft(TreeView((*TOKENS[:5], 1, 2, 3, 4), ()), [scene.frame(0, 8)])
    proposals = drafter.draft(TreeView(TOKENS[:7], ()), [scene.frame(5, 6)])
    assert_proposed(proposals, 0, scene.expected(TOKENS[:7], range(6)))
    proposals = drafter.draft(TreeView((9, 9, 9), ()))
    assert_proposed(proposals, 0, scene.expected((9, 9, 9), ()))


def test_after_one_token_nothing_is_likely_and_the_tree_begins_with_the_second(scene):
    drafter = scene.drafter(least_probability=0.02)
    assert drafter.draft(TreeView(TOKENS[:1], ())) == []
    drafter = scene.drafter(breadth=2 * VOCAB, nodes=2 * VOCAB)
    drafter.draft(TreeView(TOKENS[:1], ()))
    proposals = drafter.draft(TreeView(TOKENS[:1], (NodeView(1, 0, TOKENS[1], 1, -0.1),)))
    assert_proposed([each for each in proposals if each.parent == 1], 1, scene.expected(TOKENS[:2], ()))


def test_a_first_tokens_slot_tells_nothing_of_what_was_there_before(scene):
    network = scene.network()
    network.forward(Segment(TOKENS[:4], (0, 1, 2, 3), range(-1, 3)))
    logits = network.forward(Segment(TOKENS[4:7], (3, 4, 5), range(-1, 2), wanted=[2]))
    torch.testing.assert_close(
        torch.log_softmax(logits[0].float(), -1), scene.expected(TOKENS[4:7], ()), atol=1e-4, rtol=0
    )


def test_long_runs_without_state_do_not_depend_on_what_was_in_their_slots(scene):
    """Also beyond the rows that are computed exactly."""
    used = scene.network()
    used.forward(Segment(range(20, 30), range(10), range(-1, 9)))
    found, fresh = (
        network.forward(Segment(TOKENS[:10], range(10), range(-1, 9), wanted=[9]))
        for network in (used, scene.network())
    )
    assert torch.equal(found, fresh)


def test_rows_behind_a_frames_count_are_not_there(scene):
    whole = scene.frame(0, 11)
    part = State(0, 0, 9, whole.kind, whole.dtype, whole.shape, whole.payload)
    proposals = scene.drafter().draft(TreeView(TOKENS, ()), [part])
    assert_proposed(proposals, 0, scene.expected(TOKENS, range(9)))


def test_a_trimmed_head_proposes_nothing_but_kept_tokens(scene):
    whole = scene.expected(TOKENS, range(11))
    kept = torch.arange(0, VOCAB, 3)
    proposals = scene.drafter(kept).draft(TreeView(TOKENS, ()), [scene.frame(0, 11)])
    within = torch.log_softmax(whole[kept], -1)
    assert {each.token for each in proposals} == set(kept[within.topk(3).indices].tolist())
    assert_proposed(proposals, 0, dict(zip(kept.tolist(), within, strict=True)))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_rounds_say_what_the_target_says_with_gaps_in_the_state_too(scenes, family, seed):
    scene, said = scenes(family)
    drafter = scene.drafter()
    channel = None if seed is None else LossyChannel(seed)
    packed = PackedModel(copy.deepcopy(scene.target), 256, keep_hidden=True)
    rounds = Rounds(packed, drafter, [HiddenExporter(HIDDEN)], levels=3, channel=channel)
    answer = rounds.answer(TOKENS, 30)
    assert answer.tokens == said
    assert answer.levels > answer.passes  # it did draft
    assert channel is None or (channel.lost > 5 and channel.delivered > 5)


def test_a_perfect_network_is_accepted_at_every_level(tmp_path):
    """A target whose layers do nothing chooses next what its token alone implies, and so does this draft."""
    scene = Scene(tmp_path)
    with torch.no_grad():
        for name, weight in scene.target.named_parameters():
            if "o_proj" in name or "down_proj" in name:
                weight.zero_()
            elif name == "model.norm.weight":
                weight.fill_(1.0)
        for parameter in scene.draft.parameters():
            parameter.zero_()
        scene.draft.fc.weight[:, :HIDDEN] = torch.eye(HIDDEN)
    drafter = scene.drafter(children=1, breadth=1)
    packed = PackedModel(scene.target, 256, keep_hidden=True)
    answer = Rounds(packed, drafter, [HiddenExporter(HIDDEN)], levels=4).answer(TOKENS, 41)
    assert answer.accept_length == 5.0
