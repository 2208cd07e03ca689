"""The drafters of Hydra's and Clover's heads say what the published equations say, over trees, lags and gaps, and keep
the answer exact."""

import pytest
import torch
from torch.nn.functional import cosine_similarity, linear, rms_norm, silu

from common.codec import encode
from common.draft_models.clover import CloverConfig, CloverDraft
from common.draft_models.exporters import HiddenExporter
from common.draft_models.hydra import HydraConfig, HydraDraft
from common.draft_models.layers import LayerShape, masked_attention
from common.drafters.best_first import Expansion
from common.drafters.path_heads import PathHeadsNetwork
from common.drafters.tree_drafter import TreeDrafter
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.protocol.messages import State, StateRequest
from common.protocol.sampling import LIKELIEST, Sampling
from common.protocol.views import NodeView, TreeView
from common.rounds import Rounds
from tests.families import make_checkpoint
from tests.lossy import LossyChannel

TOKENS = (11, 45, 7, 201, 99, 45, 7, 3, 8, 120, 17, 33)
HIDDEN, VOCAB, HEADS = 48, 300, 3
LAYER = LayerShape(HIDDEN, 6, 2, 8, 64)
MAKERS = {
    "hydra": lambda: HydraDraft(HydraConfig(HIDDEN, VOCAB, HEADS, blocks=2, head_bias=True)),
    "hydra++": lambda: HydraDraft(HydraConfig(HIDDEN, VOCAB, HEADS, shared_head=True, layer=LAYER)),
    "clover": lambda: CloverDraft(CloverConfig(HIDDEN, VOCAB, HEADS, LAYER)),
}


def hydra_output(weights, base, path):
    """Hydra, section 3: a head's network reads the hidden state and the embeddings of all tokens said since."""
    head = len(path) - 1
    x = torch.cat([base, *path])
    block = f"trunks.{head}.0"
    x = linear(x, weights[f"{block}.residual.weight"], weights[f"{block}.residual.bias"]) + silu(
        linear(x, weights[f"{block}.linear.weight"], weights[f"{block}.linear.bias"])
    )
    if f"trunks.{head}.1.linear.weight" in weights:
        x = x + silu(linear(x, weights[f"trunks.{head}.1.linear.weight"], weights[f"trunks.{head}.1.linear.bias"]))
    return x


def clover_output(weights, base, path):
    """Clover, section 3: the state takes in a token's value by how its query and the token's key agree."""

    def projected(name, x):
        return linear(x, weights[f"regressive.{name}_proj.weight"], weights[f"regressive.{name}_proj.bias"])

    state = base
    for token in path:
        query = projected("q", rms_norm(state, (HIDDEN,), weights["regressive.norm.weight"], LAYER.epsilon))
        key, value = projected("k", token), projected("v", token)
        parts = []
        for head in range(LAYER.heads):
            at = slice(head * HIDDEN // LAYER.heads, (head + 1) * HIDDEN // LAYER.heads)
            parts.append(cosine_similarity(query[at], key[at], dim=0, eps=LAYER.epsilon) * value[at])
        state = state + torch.cat(parts)
    merged = linear(torch.cat([state, path[-1]]), weights["merge.weight"], weights["merge.bias"])
    return rms_norm(merged, (HIDDEN,), weights["norm.weight"], LAYER.epsilon)


class Scene:
    """A random target and random heads, and the target's hidden states of `TOKENS` as they arrive."""

    def __init__(self, folder, name):
        self.name = name
        self.target = load_causal_lm(make_checkpoint(folder / "target", "llama"), dtype=torch.float64)
        torch.manual_seed(0)
        self.draft = MAKERS[name]().double()
        for parameter in self.draft.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        with torch.no_grad():
            self.hidden = self.target.model(torch.tensor([TOKENS])).last_hidden_state[0].half().double()

    def drafter(self, **limits):
        embedding = self.target.get_input_embeddings()
        request = StateRequest("heads")
        network = PathHeadsNetwork(self.name, self.draft, embedding, self.target.lm_head, request, 192)
        bounds = {"children": 4, "breadth": 60, "least_probability": 1e-3} | limits
        return TreeDrafter(network, Expansion(**bounds))

    def frame(self, start, end):
        values = self.hidden[start:end]
        return State(0, start, end - start, "hidden", "float16", tuple(values.shape), encode(values, "float16"))

    @torch.inference_mode()
    def expected(self, tokens, known):
        """Log-probabilities behind `tokens`, from the newest of `known` positions before the last token."""
        weights = self.draft.state_dict()
        known = [position for position in known if position < len(tokens) - 1]
        base = self.hidden[known[-1]]
        if self.draft.prefix is not None:
            states, mask = self.hidden[known][None], torch.ones(len(known), len(known), dtype=torch.bool).tril()
            base = self.draft.prefix(states, torch.tensor([known]), masked_attention(mask))[0, -1]
        path = self.target.get_input_embeddings()(torch.tensor(tokens[known[-1] + 1 :]))
        if self.name == "clover":
            logits = self.target.lm_head(clover_output(weights, base, path))
        else:
            out, head = hydra_output(weights, base, path), f"heads.{len(path) - 1}"
            own = f"{head}.weight" in weights
            logits = (
                linear(out, weights[f"{head}.weight"], weights[f"{head}.bias"]) if own else self.target.lm_head(out)
            )
        return torch.log_softmax(logits.float(), -1)


@pytest.fixture(scope="module", params=MAKERS)
def scene(request, tmp_path_factory):
    return Scene(tmp_path_factory.mktemp("heads"), request.param)


def assert_proposed(proposals, parent, logps):
    offered = {each.token: each.logp for each in proposals if each.parent == parent}
    assert offered
    assert max(offered, key=offered.get) == int(logps.argmax())
    for token, logp in offered.items():
        assert logp == pytest.approx(float(logps[token]), abs=1e-4)


@pytest.mark.parametrize("newest", [10, 9, 8])
def test_the_root_is_read_through_the_committed_tokens_behind_the_newest_state(scene, newest):
    proposals = scene.drafter().draft(TreeView(TOKENS, ()), [scene.frame(0, newest + 1)])
    assert_proposed(proposals, 0, scene.expected(TOKENS, range(newest + 1)))


def test_each_node_is_read_through_its_own_path(scene):
    drafter = scene.drafter(least_probability=1e-30)
    nodes = (NodeView(1, 0, 50, 12, -0.1), NodeView(2, 0, 60, 12, -0.2), NodeView(3, 1, 70, 13, -0.3))
    proposals = drafter.draft(TreeView(TOKENS, nodes), [scene.frame(0, 11)])
    for parent, path in ((1, (50,)), (2, (60,)), (3, (50, 70))):
        assert_proposed(proposals, parent, scene.expected((*TOKENS, *path), range(11)))


@pytest.mark.parametrize(
    ("rule", "sampling"),
    [("greedy", LIKELIEST), ("coupled", Sampling(1.0, seed=5)), ("speculative", Sampling(1.0, seed=5))],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_nothing_is_said_without_state_or_behind_the_last_head(scene, rule, sampling):
    drafter = scene.drafter(least_probability=1e-30)
    assert list(drafter.draft(TreeView(TOKENS, (), rule, sampling))) == []
    late = scene.frame(0, len(TOKENS) - 1 - HEADS)
    assert list(drafter.draft(TreeView(TOKENS, (), rule, sampling), [late])) == []
    longer = (*TOKENS, 3)
    assert list(drafter.draft(TreeView(longer, (), rule, sampling))) == []
    came = scene.frame(len(TOKENS) - 4, len(TOKENS))
    assert list(drafter.draft(TreeView(longer, (), rule, sampling), [came])) != []


def test_late_state_and_filled_gaps_renew_root_and_nodes(scene):
    drafter, nodes = scene.drafter(least_probability=1e-30), (NodeView(1, 0, 50, 12, -0.1),)
    view = TreeView(TOKENS, nodes)
    drafter.draft(view, [scene.frame(0, 3), scene.frame(9, 10)])
    known = [*range(3), 9]
    for came in ((5, 8), (10, 11), (3, 5)):
        known = sorted({*known, *range(*came)})
        proposals = drafter.draft(view, [scene.frame(*came)])
        assert_proposed(proposals, 0, scene.expected(TOKENS, known))
        assert_proposed(proposals, 1, scene.expected((*TOKENS, 50), known))


def test_a_commit_and_a_rewritten_history_are_followed(scene):
    drafter = scene.drafter(least_probability=1e-30)
    drafter.draft(TreeView(TOKENS[:10], ()), [scene.frame(0, 9)])
    proposals = drafter.draft(TreeView(TOKENS, ()), [])
    assert_proposed(proposals, 0, scene.expected(TOKENS, range(9)))
    rewritten = (*TOKENS[:7], 250, 251)
    proposals = drafter.draft(TreeView(rewritten, ()), [])
    assert_proposed(proposals, 0, scene.expected(rewritten, range(7)))


@torch.no_grad()
def test_the_answer_is_the_targets_own_whatever_state_is_lost(scene):
    prompt, length = list(TOKENS), 16
    given = torch.tensor([prompt])
    own = scene.target.generate(given, max_new_tokens=length, do_sample=False, eos_token_id=None)[0, len(prompt) :]
    packed = PackedModel(load_causal_lm(scene.target.name_or_path, dtype=torch.float64), 256, keep_hidden=True)
    exporters = [HiddenExporter(HIDDEN)]
    answer = Rounds(packed, scene.drafter(), exporters, channel=LossyChannel(0)).answer(prompt, length)
    assert list(answer.tokens) == own.tolist()
