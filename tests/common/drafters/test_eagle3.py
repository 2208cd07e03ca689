"""The eagle3 drafter computes what its network does row by row, whatever state has arrived, and keeps the answer
exact."""

import copy
from dataclasses import replace

import pytest
import torch

from common.codec import encode
from common.draft_models.eagle3 import Eagle3Config, Eagle3Draft
from common.draft_models.exporters import FusedExporter
from common.draft_models.layers import LayerShape, masked_attention
from common.drafters.best_first import Expansion
from common.drafters.eagle3 import eagle3_source
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
CONTEXT, HIDDEN, VOCAB, TAPS = 128, 48, 300, (0, 1, 2)
KEPT = torch.arange(0, VOCAB, 3)


class Scene:
    """A random target and a random draft over a third of its vocabulary, and the fused states of `TOKENS` as they
    arrive."""

    def __init__(self, folder, family="llama", own_embedding=False, further=0, own_head=True):
        self.target = load_causal_lm(make_checkpoint(folder / family, family), dtype=torch.float64)
        torch.manual_seed(0)
        layer = LayerShape(HIDDEN, 6, 2, 8, 64, input_norm=False)
        behind = tuple(replace(layer, input_norm=True, sliding_window=4) for _ in range(further))
        self.kept = KEPT if own_head else None
        config = Eagle3Config(
            layer,
            VOCAB,
            len(KEPT) if own_head else VOCAB,
            own_embedding=own_embedding,
            own_head=own_head,
            norm_output=further > 0,
            further=behind,
        )
        self.draft = Eagle3Draft(config).double().requires_grad_(False)
        for parameter in self.draft.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        self.fuse = torch.nn.Linear(3 * HIDDEN, HIDDEN, bias=False).double().requires_grad_(False)
        entered = self.target.model(torch.tensor([TOKENS]), output_hidden_states=True).hidden_states
        self.fused = self.fuse(torch.cat([entered[tap][0] for tap in TAPS], -1)).half().double()

    def source(self, embedding):
        return eagle3_source(self.draft, embedding, self.target.lm_head, self.kept)

    def drafter(self, **limits):
        source = self.source(self.target.get_input_embeddings())
        network = FeatureNetwork(source, StateRequest("bird"), CONTEXT, 64)
        return TreeDrafter(network, Expansion(**{"children": 5, "breadth": 3, "least_probability": 1e-9} | limits))

    def frame(self, start, end, kind="fused"):
        values = self.fused[start:end]
        return State(0, start, end - start, kind, "float16", tuple(values.shape), encode(values, "float16"))

    @torch.inference_mode()
    def expected(self, path, known):
        """Log-probabilities of kept tokens behind `path`, row by row: fused states at `known` positions, own outputs at
        all others."""
        features = torch.zeros(len(path), HIDDEN, dtype=torch.float64)
        for position in known:
            features[position] = self.fused[position]
        embedding = self.target.get_input_embeddings() if self.draft.embedding is None else self.draft.embedding
        embedded = embedding(torch.tensor(path))
        for length in range(1, len(path)):
            entered = self.draft.enter(embedded[None, 1 : length + 1], features[None, :length])
            distance = torch.arange(length)[:, None] - torch.arange(length)[None]
            windows = [shape.sliding_window or length for shape in self.draft.config.layers]
            attention = [masked_attention((distance >= 0) & (distance < window)) for window in windows]
            out = self.draft(entered, torch.arange(length)[None], *attention)[0, -1]
            if length not in known:
                features[length] = out
        logps = torch.log_softmax(self.draft.logits(out, self.target.lm_head).float(), -1)
        return logps if self.kept is None else dict(zip(KEPT.tolist(), logps, strict=True))


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return scenes_of(Scene, TOKENS, tmp_path_factory)


@pytest.fixture(
    scope="module",
    params=[{}, {"own_embedding": True}, {"further": 2}, {"own_head": False}],
    ids=["the target's embedding", "its own embedding", "three layers", "the target's head"],
)
def scene(tmp_path_factory, request):
    return Scene(tmp_path_factory.mktemp("eagle3"), **request.param)


def assert_proposed(proposals, parent, logps):
    offered = {each.token: each.logp for each in proposals if each.parent == parent}
    assert offered
    for token, logp in offered.items():
        assert logp == pytest.approx(float(logps[token]), abs=1e-4)


@pytest.mark.parametrize("newest", [11, 10, 9])
def test_the_first_level_follows_the_newest_state(scene, newest):
    """With the state of all tokens but the root's; then with one and two of them late."""
    proposals = scene.drafter().draft(TreeView(TOKENS, ()), [scene.frame(0, newest)])
    assert_proposed(proposals, 0, scene.expected(TOKENS, range(newest)))


def test_levels_are_drafted_from_its_own_output(scene):
    drafter = scene.drafter(breadth=60)
    drafter.draft(TreeView(TOKENS, ()), [scene.frame(0, 11)])
    first = (NodeView(1, 0, 51, 12, -0.1), NodeView(2, 0, 60, 12, -0.2))
    drafter.draft(TreeView(TOKENS, first))
    nodes = (*first, NodeView(3, 1, 72, 13, -0.3), NodeView(4, 2, 72, 13, -0.4))
    proposals = drafter.draft(TreeView(TOKENS, nodes))
    for parent, path in ((3, (51, 72)), (4, (60, 72))):
        assert_proposed(proposals, parent, scene.expected((*TOKENS, *path), range(11)))


def test_late_state_replaces_its_own_output_in_any_order(scene):
    drafter, view = scene.drafter(), TreeView(TOKENS, ())
    drafter.draft(view)
    for spans in (((0, 2),), ((8, 11),), ((4, 8), (8, 9)), ((2, 4),)):
        proposals = drafter.draft(view, [scene.frame(*span) for span in spans])
    assert_proposed(proposals, 0, scene.expected(TOKENS, range(11)))


def test_state_is_followed_as_it_arrives_while_the_answer_grows(scene):
    drafter = scene.drafter()
    for length, span in ((4, (0, 2)), (6, (2, 5)), (7, (5, 6)), (12, (6, 11))):
        proposals = drafter.draft(TreeView(TOKENS[:length], ()), [scene.frame(*span)])
        assert_proposed(proposals, 0, scene.expected(TOKENS[:length], range(span[1])))


def test_a_gap_is_drafted_across(scene):
    proposals = scene.drafter().draft(TreeView(TOKENS, ()), [scene.frame(0, 3), scene.frame(5, 11)])
    assert_proposed(proposals, 0, scene.expected(TOKENS, (0, 1, 2, 5, 6, 7, 8, 9, 10)))


def test_state_of_another_kind_is_not_its_own(scene):
    proposals = scene.drafter().draft(TreeView(TOKENS[:3], ()), [scene.frame(0, 2, "hidden")])
    assert_proposed(proposals, 0, scene.expected(TOKENS[:3], ()))


def test_an_embedding_equal_to_the_targets_is_not_kept_twice(tmp_path):
    scene = Scene(tmp_path, own_embedding=True)
    theirs = scene.target.get_input_embeddings()
    assert scene.source(theirs).embedding is scene.draft.embedding
    scene.draft.embedding.weight.copy_(theirs.weight)
    scaled = copy.deepcopy(theirs)
    scaled.register_forward_hook(lambda _, given, found: found * 3)
    assert scene.source(scaled).embedding is scene.draft.embedding
    assert scene.source(theirs).embedding is theirs
    assert scene.draft.embedding is None


@pytest.mark.parametrize("family", FAMILIES)
def test_the_exporter_fuses_what_enters_the_layers(scenes, family):
    scene, _ = scenes(family)
    packed = PackedModel(copy.deepcopy(scene.target), 32, taps=(0, 1, 2, 3))
    slots = (7, 3, 5, 1, 2, 4, 6, 8, 9, 11, 10, 12)
    packed.forward([Segment(TOKENS, slots, range(-1, 11))])
    where = torch.tensor(slots)
    found = FusedExporter(scene.fuse, TAPS).export(packed.pool, where)
    torch.testing.assert_close(found.double(), scene.fused, rtol=1e-2, atol=1e-2)
    last = scene.target.model(torch.tensor([TOKENS])).last_hidden_state[0]
    torch.testing.assert_close(scene.target.model.norm(packed.pool.taps_SE[3][where]), last)
    with pytest.raises(RuntimeError, match="keeps no hidden states"):
        FusedExporter(scene.fuse, (0, 1, 4)).export(packed.pool, where)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", [None, 1])
def test_rounds_say_what_the_target_says_with_gaps_in_the_state_too(scenes, family, seed):
    scene, said = scenes(family)
    channel = None if seed is None else LossyChannel(seed)
    packed = PackedModel(copy.deepcopy(scene.target), 256, taps=TAPS)
    rounds = Rounds(packed, scene.drafter(), [FusedExporter(scene.fuse, TAPS)], levels=3, channel=channel)
    answer = rounds.answer(TOKENS, 30)
    assert answer.tokens == said
    assert answer.levels > answer.passes  # it did draft
    assert channel is None or (channel.lost > 5 and channel.delivered > 5)
