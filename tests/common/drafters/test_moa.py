"""The moa drafter computes what training simulated: with whatever state has arrived, at every depth, over a tree."""

import copy

import pytest
import torch
from transformers import DynamicCache

from common.codec import encode
from common.draft_models.exporters import KeyValueExporter, LsaExporter
from common.draft_models.layers import masked_attention
from common.draft_models.moa import MoaDraft, make_lsa
from common.draft_models.state_codec import StateCodec
from common.draft_models.tail import load_tail, write_tail
from common.drafters import tree_drafter
from common.drafters.best_first import Expansion
from common.drafters.moa import MoaNetwork
from common.drafters.tree_drafter import TreeDrafter
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.models.parts import head_of
from common.models.segment import Segment
from common.protocol.messages import State, StateRequest
from common.protocol.views import NodeView, TreeView
from tests.drafts import moa_config_for
from tests.families import FAMILIES, make_checkpoint
from training.draft_models.straight_through import as_sent
from training.draft_models.tail_forward import TwoSources, through_tail

TOKENS = [11, 45, 7, 201, 99, 45, 7, 3, 8, 120, 17, 33]
CONTEXT = 64


class Scene:
    """A random target, a random draft, and the target's K/V and hidden states of `TOKENS`."""

    def __init__(self, folder, family, depth, codec=None):
        self.depth, self.dtype = depth, "float16" if codec is None else codec.dtype
        make_checkpoint(folder / "target", family, layers=4)
        write_tail(folder / "target", depth, folder / "tail")
        self.folder = folder
        self.target = load_causal_lm(folder / "target", dtype=torch.float64)
        config = moa_config_for(folder / "target", (0, 1, 3), codec=codec)
        torch.manual_seed(0)
        self.draft, self.lsa = MoaDraft(config, depth).double(), make_lsa(config).double()
        for module in (self.draft, self.lsa):
            for parameter in module.parameters():
                torch.nn.init.normal_(parameter, std=0.3)
        self.exporters = [LsaExporter(self.lsa, config.sent_width)]
        if depth:
            self.exporters.append(KeyValueExporter(depth, config.state_width // 2))
        packed = PackedModel(load_causal_lm(folder / "target", dtype=torch.float64), CONTEXT)
        packed.forward([Segment(TOKENS, range(len(TOKENS)), range(-1, len(TOKENS) - 1))])
        self.pool = packed.pool
        self.tail = load_tail(self.folder / "tail", self.depth, "cpu", torch.float64)

    def drafter(self):
        tail = copy.deepcopy(self.tail)
        network = MoaNetwork(self.draft, tail, head_of(tail), StateRequest("moa", self.depth), CONTEXT, 64)
        return TreeDrafter(network, Expansion(children=5, breadth=3, least_probability=1e-9))

    def frames(self, start, count):
        slots = torch.arange(start, start + count)
        states = [(exporter, exporter.export(self.pool, slots)) for exporter in self.exporters]
        return [
            State(0, start, count, exporter.kind, self.dtype, tuple(state.shape), encode(state, self.dtype))
            for exporter, state in states
        ]

    @torch.inference_mode()
    def expected(self, path, newest, lost=()):
        """As in training: log-probabilities behind `path`, with the state up to `newest` but for `lost` positions."""
        ids = torch.tensor([path])
        columns = torch.arange(len(path))
        known = self.target(torch.tensor([TOKENS]), past_key_values=DynamicCache()).past_key_values.layers
        key_values = torch.stack([torch.cat([_flat(each.keys), _flat(each.values)], -1) for each in known])
        key_values = torch.nn.functional.pad(key_values, (0, 0, 0, len(path) - len(TOKENS)))
        states = as_sent(self.lsa(key_values.permute(1, 2, 0, 3)[0]), self.dtype).double()[None]
        held = (columns <= newest) & torch.tensor([column not in lost for column in columns.tolist()])
        memory = self.draft.project_states(states)
        causal = (columns[None] <= columns[:, None])[None]
        read = self.draft.read(
            self.target.get_input_embeddings()(ids), columns[None], masked_attention(causal[:, None])
        )
        out = self.draft.look_back(
            read,
            columns[None],
            masked_attention(held.expand(1, 1, len(path), -1)),
            self.draft.ca.keys_values(memory, columns[None]),
        )
        if self.depth:
            sees = causal & held
            sources = TwoSources(key_values[-self.depth :].half().double(), sees, causal & ~sees)
            out = through_tail(self.tail, out, sources)
        return torch.log_softmax(self.target.lm_head(out[0, -1]).float(), -1)


def _flat(heads):
    return heads.transpose(1, 2).flatten(2)


SCENES = [
    ("llama", 0),
    ("llama", 1),
    *((family, 3) for family in FAMILIES),
    *(("llama", 0, StateCodec(width, dtype)) for width, dtype in ((5, "int4"), (11, "int3"), (7, "int8"))),
]


@pytest.fixture(scope="module", params=SCENES, ids=str)
def scene(request, tmp_path_factory):
    return Scene(tmp_path_factory.mktemp("moa"), *request.param)


def assert_proposed(proposals, parent, logps):
    offered = {each.token: each.logp for each in proposals if each.parent == parent}
    assert offered
    for token, logp in offered.items():
        assert logp == pytest.approx(float(logps[token]), abs=1e-4)


def test_the_first_level_is_what_training_saw(scene):
    proposals = scene.drafter().draft(TreeView(tuple(TOKENS), ()), scene.frames(0, 10))
    assert_proposed(proposals, 0, scene.expected(TOKENS, newest=9))


def test_nodes_are_drafted_from_their_paths_and_renewed_by_newer_state(scene):
    drafter = scene.drafter()
    drafter.draft(TreeView(tuple(TOKENS), ()), scene.frames(0, 8))
    nodes = (NodeView(1, 0, 50, 12, -0.1), NodeView(2, 0, 60, 12, -0.2), NodeView(3, 1, 70, 13, -0.3))
    view = TreeView(tuple(TOKENS), nodes)
    drafter.draft(view)
    proposals = drafter.draft(view, scene.frames(8, 3))
    above = {0: [], 1: [50], 2: [60], 3: [50, 70]}
    totals = {0: 0.0} | {node.id: node.logp for node in nodes}
    assert proposals
    for each in proposals:
        logps = scene.expected([*TOKENS, *above[each.parent]], newest=10)
        assert each.logp == pytest.approx(float(logps[each.token]), abs=1e-4)
        assert totals[each.parent] + each.logp <= 0


def test_newer_state_costs_one_forward_for_the_root_and_all_nodes(scene, monkeypatch):
    drafter = scene.drafter()
    nodes = (NodeView(1, 0, 50, 12, -0.1), NodeView(2, 1, 60, 13, -0.2))
    drafter.draft(TreeView(tuple(TOKENS), nodes), scene.frames(0, 8))
    wanted = []

    def forward(network, segment, original=MoaNetwork.forward):
        wanted.append(len(segment.wanted))
        return original(network, segment)

    monkeypatch.setattr(MoaNetwork, "forward", forward)
    drafter.draft(TreeView(tuple(TOKENS), nodes), scene.frames(8, 1))
    assert wanted == [3]


def test_state_may_arrive_backwards_and_in_pieces(scene):
    whole, pieces = scene.drafter(), scene.drafter()
    view = TreeView(tuple(TOKENS), ())
    expected = whole.draft(view, scene.frames(0, 10))
    for start, count in ((7, 3), (0, 4), (4, 3)):
        proposals = pieces.draft(view, scene.frames(start, count))
    assert [(each.token, pytest.approx(each.logp, abs=1e-4)) for each in proposals] == [
        (each.token, each.logp) for each in expected
    ]


def test_gaps_are_drafted_over(scene):
    # A token in the gap attends to whatever arrived with it, here and in `expected`; training showed it less.
    proposals = scene.drafter().draft(TreeView(tuple(TOKENS), ()), [*scene.frames(0, 4), *scene.frames(7, 3)])
    assert_proposed(proposals, 0, scene.expected(TOKENS, newest=9, lost=(4, 5, 6)))


def test_a_prompt_is_read_in_pieces(scene, monkeypatch):
    whole = scene.drafter().draft(TreeView(tuple(TOKENS), ()), scene.frames(0, 10))
    monkeypatch.setattr(tree_drafter, "_CHUNK", 5)
    pieces = scene.drafter().draft(TreeView(tuple(TOKENS), ()), scene.frames(0, 10))
    assert [(each.token, pytest.approx(each.logp, abs=1e-4)) for each in pieces] == [
        (each.token, each.logp) for each in whole
    ]


def test_without_any_state_it_drafts_all_the_same(scene):
    assert scene.drafter().draft(TreeView(tuple(TOKENS), ()))


def test_a_rewritten_history_forgets_its_state(scene):
    drafter = scene.drafter()
    rewritten = [*TOKENS[:6], 99, 98, 97]
    drafter.draft(TreeView(tuple(TOKENS), ()), scene.frames(0, 11))
    drafter.draft(TreeView(tuple(rewritten), ()))
    after = drafter.draft(TreeView(tuple(rewritten), ()), scene.frames(0, 6))
    fresh = scene.drafter().draft(TreeView(tuple(rewritten), ()), scene.frames(0, 6))
    assert [(each.token, pytest.approx(each.logp, abs=1e-5)) for each in after] == [
        (each.token, each.logp) for each in fresh
    ]
