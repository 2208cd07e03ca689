"""A random target, its state of some tokens, and a drafter of a small decoder that attends to it."""

import torch

from common.codec import encode
from common.drafters.best_first import Expansion
from common.drafters.tree_drafter import TreeDrafter
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.models.segment import Segment
from common.protocol.messages import State, StateRequest
from common.protocol.views import NodeView, TreeView
from tests.families import make_checkpoint
from training.draft_models.features import load_target
from training.draft_models.tail_forward import frozen_tail

TOKENS = [11, 45, 7, 201, 99, 45, 7, 3, 8, 120, 17, 33]
NODES = (NodeView(1, 0, 61, 12, -0.1), NodeView(2, 0, 19, 12, -0.9), NodeView(3, 1, 88, 13, -0.2))
"""A node's path is its own token behind those above it."""
PATHS = {0: [], 1: [61], 2: [19], 3: [61, 88]}
CONTEXT, SPARE = 64, 32
HELD = {"lagging": range(10), "none": [], "with a gap": [0, 1, 2, 3, 7, 8]}


class Scene:
    """`draft` is shaken; `taps` are those that the exporter reads."""

    def __init__(self, folder, taps=()):
        self.checkpoint = make_checkpoint(folder / "target", "llama", layers=4)
        self.target = load_causal_lm(self.checkpoint, dtype=torch.float64)
        self.tail = frozen_tail(load_target(str(self.checkpoint), torch.device("cpu"), "float64"), 0)
        packed = PackedModel(load_causal_lm(self.checkpoint, dtype=torch.float64), CONTEXT, taps=set(taps))
        packed.forward([Segment(TOKENS, range(len(TOKENS)), range(-1, len(TOKENS) - 1))])
        self.pool = packed.pool

    def frames(self, exporter, held):
        return [self._frame(exporter, position) for position in held]

    def _frame(self, exporter, position):
        state = exporter.export(self.pool, torch.tensor([position]))
        return State(0, position, 1, exporter.kind, "float16", tuple(state.shape), encode(state, "float16"))

    def logits(self, network, frames):
        """Of the root and of `NODES` with one token more each, by node: what a drafter's candidates come from."""
        seen = {}

        class Recording:
            def __getattr__(self, name):
                return getattr(network, name)

            def forward(self, segment):
                out = network.forward(segment)
                for row, wanted in enumerate(segment.wanted):
                    seen[tuple(_path(segment, wanted))] = torch.log_softmax(out[row].double(), -1)
                return out

        drafter = TreeDrafter(Recording(), Expansion(children=2, breadth=2, nodes=8, least_probability=1e-9))
        view = TreeView(tuple(TOKENS), NODES)
        drafter.draft(TreeView(tuple(TOKENS[:9]), ()), [each for each in frames if each.start < 4])
        seen.clear()
        drafter.draft(view, [each for each in frames if each.start >= 4])
        return seen


def _path(segment, row):
    """Tokens of this segment that lead to its new token `row`."""
    first, path = len(segment.slots) - len(segment.tokens), []
    while row >= 0:
        path.insert(0, int(segment.tokens[row]))
        row = int(segment.parents[first + row]) - first
    return path


def shaken(module):
    torch.manual_seed(0)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return module.double().requires_grad_(False)


REQUEST = StateRequest("draft")
