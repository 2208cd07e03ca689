"""The block drafter computes what training simulated, with whatever state has arrived: what a level computes of a tree,
and the block behind one of its nodes, of which it keeps what still holds after a commit."""

import math

import pytest
import torch

from common.draft_models.block import BlockConfig, BlockDraft
from common.draft_models.exporters import FusedExporter
from common.draft_models.layers import LayerShape, beside, masked_attention
from common.draft_models.tandem import TandemConfig, make_fuse
from common.drafters import level_and_block_drafter, predicted_blocks
from common.drafters.best_first import Expansion
from common.drafters.block_network import BlockNetwork
from common.drafters.level_and_block_drafter import LevelAndBlockDrafter
from common.models.parts import head_of
from common.protocol.messages import StateRequest
from common.protocol.sampling import Sampling
from common.protocol.views import NodeView, TreeView
from tests.common.drafters.crossing import CONTEXT, TOKENS, Scene, shaken
from tests.common.drafters.growing import Growing

TAPS = (2, 4)
LENGTH, SHORTLIST = 4, 12


class BlockScene(Scene):
    """A random target, a random draft, and the target's state of `TOKENS`."""

    def __init__(self, folder):
        super().__init__(folder, TAPS)
        layer = LayerShape(self.target.config.hidden_size, heads=4, kv_heads=2, head_dim=8, intermediate=48)
        trunk = TandemConfig(layer, 2, TAPS, state_width=16)
        self.draft = shaken(BlockDraft(BlockConfig(trunk, LENGTH, across=layer, correction=8)))
        self.exporter = FusedExporter(shaken(make_fuse(trunk)), TAPS)

    def drafter(self, **bounds):
        bounds = {"children": 3, "breadth": 4, "nodes": 12, "least_probability": 1e-9} | bounds
        network = BlockNetwork(self.draft, self.tail, head_of(self.tail), StateRequest("block"), CONTEXT, spare=64)
        return LevelAndBlockDrafter(network, Expansion(**bounds))

    def frames_of(self, held):
        return self.frames(self.exporter, held)

    @torch.inference_mode()
    def next_token(self, anchored, held):
        """As in training: log-probabilities behind `anchored`, with the states of the positions `held`."""
        read, positions, keys_values, attention = self._seen(anchored, held)
        left = self.draft.trunk.last(read, positions, attention, keys_values)
        return torch.log_softmax(self._head(left[0, -1]), -1)

    @torch.inference_mode()
    def ahead(self, anchored, path, held):
        """As in training: log-probabilities behind `path` in the block whose anchor is the end of `anchored`."""
        read, positions, keys_values, attention = self._seen(anchored, held)
        block = self.draft.predict_block(read[:, -1], positions[:, -1], attention, keys_values)
        hidden, state = block[:, len(path)], self.draft.first_path(block[:, 0])
        for token in path:
            state = self.draft.next_path(state, self.target.get_input_embeddings()(torch.tensor([token])))
        likeliest = self._head(block[0]).topk(SHORTLIST).indices.unique()
        logits = self._head(self.draft.corrected(hidden, state))[0]
        kept = torch.full_like(logits, -torch.inf).index_copy(0, likeliest, logits[likeliest])
        return torch.log_softmax(kept, -1)

    def _head(self, left):
        return self.target.lm_head(self.draft.trunk.norm(left)).float()

    def _seen(self, anchored, held):
        """What enters the last layer of the trunk, its positions, that layer's keys and values with those of states
        before a row's own, and the last row's attention to them."""
        trunk, columns = self.draft.trunk, torch.arange(len(anchored))
        states = self.exporter.export(self.pool, torch.arange(len(TOKENS))).half().double()[None]
        arrived = torch.tensor([position in held for position in range(len(TOKENS))])
        causal = columns <= columns[:, None]
        own = causal & ~torch.nn.functional.pad(arrived, (0, len(anchored)))[: len(anchored)]
        seen = torch.cat([arrived & (torch.arange(len(TOKENS)) <= columns[:, None]), own], dim=1)
        first, last = trunk.keys_values(states, torch.arange(len(TOKENS))[None])
        embedded = self.target.get_input_embeddings()(torch.tensor([anchored]))
        read = trunk.read(embedded, columns[None], [beside(first, masked_attention(seen))])
        owned = trunk.last.keys_values(read, columns[None])
        both = tuple(torch.cat(each, dim=2) for each in zip(last, owned, strict=True))
        return read, columns[None], both, masked_attention(seen[-1:])


@pytest.fixture(autouse=True)
def few_tokens(monkeypatch):
    """Of 300, so that some are left out; a random network is sure of none of them."""
    monkeypatch.setattr(predicted_blocks, "_SHORTLIST", SHORTLIST)
    monkeypatch.setattr(level_and_block_drafter, "_LEAST_GUESS", 0.0)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return BlockScene(tmp_path_factory.mktemp("block"))


def above(proposals, each):
    """The tokens to a proposal's parent, from the root or from the node of the view that it is behind."""
    path = []
    while each.parent < 0:
        each = proposals[-each.parent - 1]
        path.insert(0, each.token)
    return path


@pytest.mark.parametrize("held", [range(10), [], [0, 1, 2, 3, 7, 8]], ids=["lagging", "none", "with a gap"])
def test_one_call_proposes_a_tree_as_deep_as_a_block(scene, held):
    proposals = scene.drafter(nodes=40).draft(TreeView(tuple(TOKENS), ()), scene.frames_of(held))
    paths = [above(proposals, each) for each in proposals]
    assert max(map(len, paths)) == LENGTH - 1
    for path, each in zip(paths, proposals, strict=True):
        logps = scene.ahead(TOKENS, path, held) if path else scene.next_token(TOKENS, held)
        assert each.logp == pytest.approx(float(logps[each.token]), abs=1e-4)
        assert int((logps > logps[each.token]).sum()) < 3


def test_the_next_call_rescores_guesses_and_looks_ahead_of_the_likeliest(scene):
    """Behind nodes of the view by what a level computes, behind its own proposals by a block from the deepest node."""
    nodes, chain, logp = [], [], 0.0
    for depth in range(4):
        chain.append(int(scene.next_token([*TOKENS, *chain], range(11)).argmax()))
        nodes.append(NodeView(depth + 1, depth, chain[-1], 12 + depth, logp := logp - 0.1))
    drafter = scene.drafter(nodes=500, breadth=12, least_probability=1e-20)
    drafter.draft(TreeView(tuple(TOKENS), ()), scene.frames_of(range(11)))
    proposals = drafter.draft(TreeView(tuple(TOKENS), tuple(nodes)))
    level = [each for each in proposals if each.parent >= 0]
    behind = [each for each in proposals if each.parent < 0 and proposals[-each.parent - 1].parent == 4]
    assert {each.parent for each in level} >= {0, 4}
    for each in level:
        logps = scene.next_token([*TOKENS, *chain[: each.parent]], range(11))
        assert each.logp == pytest.approx(float(logps[each.token]), abs=1e-4)
    assert behind
    for each in behind:
        logps = scene.ahead([*TOKENS, *chain], above(proposals, each), range(11))
        assert each.logp == pytest.approx(float(logps[each.token]), abs=1e-4)


def test_what_was_computed_is_kept_over_commits_along_the_tree_and_beside_it(scene):
    """Behind every commit each proposal is what a level computes of its parent, or a block above it."""
    vocabulary = scene.target.config.vocab_size
    growing = Growing(scene.drafter(nodes=16), TOKENS[:4], vocabulary)
    guessed = 0
    for commit in ("along", "beside", "along"):
        for _ in range(2):
            for path, each in growing.draft():
                distance = abs(float(scene.next_token(path, [])[each.token]) - each.logp)
                blocks = [
                    float(scene.ahead(path[:end], path[end:], [])[each.token])
                    for end in range(max(1, len(path) - LENGTH + 1), len(path))
                ]
                guessed += distance >= 1e-4
                assert min([distance, *(abs(logp - each.logp) for logp in blocks)]) < 1e-4
        best = max(growing.session.view().nodes, key=lambda node: node.logp)
        growing.commit([best.token if commit == "along" else (best.token + 1) % vocabulary])
    assert guessed


def test_a_rewritten_history_leaves_nothing_of_what_it_replaced(scene):
    drafter, fresh = scene.drafter(), scene.drafter()
    drafter.draft(TreeView(tuple(TOKENS), ()), scene.frames_of(range(11)))
    rewritten = TreeView((*TOKENS[:6], 200, 201, 202), ())
    expected = fresh.draft(rewritten, scene.frames_of(range(6)))
    found = drafter.draft(rewritten)
    assert [each.token for each in found] == [each.token for each in expected]
    assert [each.logp for each in found] == pytest.approx([each.logp for each in expected], abs=1e-6)


def test_unlikely_guesses_leave_their_room_to_later_levels(scene, monkeypatch):
    view = TreeView(tuple(TOKENS), ())
    all_of_them = scene.drafter(nodes=40).draft(view)
    reached = [each.logp for each in all_of_them if each.parent]
    monkeypatch.setattr(
        level_and_block_drafter, "_LEAST_GUESS", least := 2 * math.exp(min(map(sum, _paths_to(all_of_them))))
    )
    likelier = scene.drafter(nodes=40).draft(view)
    assert 0 < len([each for each in likelier if each.parent]) < len(reached)
    found = zip(likelier, _paths_to(likelier), strict=True)
    assert all(sum(path) >= math.log(least) for each, path in found if each.parent)


def _paths_to(proposals):
    """The log-probabilities of the nodes on the path to each."""
    paths = []
    for each in proposals:
        paths.append([*(paths[-each.parent - 1] if each.parent else []), each.logp])
    return paths


def test_a_full_tree_and_what_is_written_alone_need_no_block(scene, monkeypatch):
    computed = []
    real = BlockNetwork.forward_ahead
    monkeypatch.setattr(BlockNetwork, "forward_ahead", lambda *given: computed.append(given) or real(*given))
    drafter = scene.drafter(nodes=6)
    assert len(drafter.draft(TreeView(tuple(TOKENS), ()))) == 6
    assert len(computed) == 1
    nodes = tuple(NodeView(k, 0, 40 + k, 12, math.log(0.1)) for k in range(1, 7))
    assert drafter.draft(TreeView(tuple(TOKENS), nodes)) == ()
    alone = scene.drafter(nodes=1, breadth=1).draft(TreeView(tuple(TOKENS), (), alone=True))
    assert [each.token for each in alone] == [int(scene.next_token(TOKENS, []).argmax())]
    assert len(computed) == 1


def test_drawn_siblings_come_in_whole_groups_from_one_distribution(scene):
    view = TreeView(tuple(TOKENS), (), rule="speculative", sampling=Sampling(1.0))
    proposals = scene.drafter(nodes=20).draft(view)
    groups = {}
    for each in proposals:
        groups.setdefault(each.parent, []).append(each)
    assert any(len(group) > 1 for group in groups.values())
    for group in groups.values():
        assert len({each.token for each in group}) == len(group)
        assert len({each.draw for each in group}) == 1
        assert all(each.token in each.draw.tokens for each in group)


def test_nothing_is_drawn_behind_drawn_siblings_in_the_same_call(scene):
    drafter = scene.drafter(nodes=20, draws_once=True)
    drawn = drafter.draft(TreeView(tuple(TOKENS), (), rule="speculative", sampling=Sampling(1.0)))
    assert len(drawn) > 1
    assert all(each.parent == 0 for each in drawn)
    assert any(each.parent < 0 for each in drafter.draft(TreeView(tuple(TOKENS), ()))), "what is not drawn goes ahead"


def test_levels_that_do_not_go_ahead_are_the_first_level_of_those_that_do(scene):
    view = TreeView(tuple(TOKENS), (), rule="greedy")
    ahead, one = scene.drafter(nodes=20), scene.drafter(nodes=20, ahead=False)
    first = one.draft(view)
    assert all(each.parent == 0 for each in first)
    assert first == [each for each in ahead.draft(view) if each.parent == 0][: len(first)]
    nodes = (NodeView(1, 0, first[0].token, 12, first[0].logp),)
    grown = TreeView(tuple(TOKENS), nodes, rule="greedy")
    one.expansion = ahead.expansion
    deep = one.draft(grown)
    assert any(each.parent < 0 for each in deep), "it goes ahead once it may"
    one.expansion = scene.drafter(ahead=False).expansion
    again = TreeView((*TOKENS, first[0].token), (), rule="greedy")
    assert all(each.parent == 0 for each in one.draft(again))
