"""The medusa drafter proposes its heads' tree from the newest state, and the rest of it where the state lags."""

import copy
import math
from dataclasses import replace
from functools import cache
from unittest.mock import Mock

import pytest
import torch

from common.codec import encode
from common.draft_models.exporters import HiddenExporter
from common.draft_models.medusa import MedusaConfig, MedusaDraft
from common.drafters.best_first import Expansion
from common.drafters.medusa import MedusaDrafter
from common.drafters.ranking import Ranked
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.protocol.messages import State, StateRequest
from common.protocol.views import NodeView, TreeView
from common.rounds import Rounds
from tests.families import FAMILIES, make_checkpoint
from tests.lossy import LossyChannel

TOKENS = (11, 45, 7, 201, 99, 45, 7, 3)
HIDDEN, VOCAB = 48, 300
ACCURACIES = ((0.6, 0.2), (0.5, 0.1), (0.4, 0.1))


@pytest.fixture
def draft():
    torch.manual_seed(0)
    draft = MedusaDraft(MedusaConfig(HIDDEN, VOCAB, ACCURACIES)).double()
    for parameter in draft.parameters():
        torch.nn.init.normal_(parameter)
    return draft


@pytest.fixture
def hidden():
    return torch.randn(len(TOKENS), HIDDEN, generator=torch.Generator().manual_seed(1)).half().double()


def drafter_of(draft, **limits):
    return MedusaDrafter(
        draft, torch.nn.Identity(), StateRequest("medusa"), Expansion(least_probability=0.05, **limits)
    )


def frame(hidden, start, end):
    values = hidden[start:end]
    return State(0, start, end - start, "hidden", "float16", tuple(values.shape), encode(values, "float16"))


def best(draft, hidden, head, count=2):
    with torch.no_grad():
        return draft.logits(head, hidden, torch.nn.Identity()).topk(count).indices.tolist()


def paths(view, proposals):
    """Each proposal's path from the root, and its log-probability."""
    known = {0: ()}
    for node in view.nodes:
        known[node.id] = (*known[node.parent], node.token)
    for number, each in enumerate(proposals, start=1):
        known[-number] = (*known[each.parent], each.token)
    return {known[-number]: each.logp for number, each in enumerate(proposals, start=1)}


def test_nothing_is_proposed_before_state_has_come(draft):
    assert drafter_of(draft).draft(TreeView(TOKENS, ())) == ()


def test_the_newest_states_tree_is_proposed_once(draft, hidden):
    drafter, view = drafter_of(draft), TreeView(TOKENS, ())
    found = paths(view, drafter.draft(view, [frame(hidden, 0, 7), frame(hidden, 2, 5)]))
    (a, b), (c, d), (e, f) = (best(draft, hidden[6], head) for head in range(3))
    assert found == {
        (a,): pytest.approx(math.log(0.6)),
        (a, c): pytest.approx(math.log(0.5)),
        (b,): pytest.approx(math.log(0.2)),
        (a, c, e): pytest.approx(math.log(0.4)),
        (b, c): pytest.approx(math.log(0.5)),
        (a, d): pytest.approx(math.log(0.1)),
    }
    assert drafter.draft(view) == ()
    assert f not in {path[-1] for path in found if len(path) == 3}


def test_heads_whose_tokens_are_committed_are_left_out(draft, hidden):
    said = best(draft, hidden[6], 0)[1]
    view = TreeView((*TOKENS, said), ())
    found = paths(view, drafter_of(draft).draft(view, [frame(hidden, 0, 7)]))
    (c, d), (e, f) = (best(draft, hidden[6], head) for head in (1, 2))
    assert set(found) == {(c,), (d,), (c, e), (c, f)}
    assert found[(c, e)] == pytest.approx(math.log(0.4))


def test_heads_that_spoke_of_another_text_are_silent(draft, hidden):
    other = next(token for token in range(VOCAB) if token not in best(draft, hidden[6], 0, 10))
    assert drafter_of(draft).draft(TreeView((*TOKENS, other), ()), [frame(hidden, 0, 7)]) == ()


def test_state_that_is_older_than_all_heads_reach_gives_nothing(draft, hidden):
    said = [best(draft, hidden[4], head)[0] for head in range(3)]
    view = TreeView((*TOKENS[:6], *said), ())
    assert list(drafter_of(draft).draft(view, [frame(hidden, 0, 5)])) == []


def test_nodes_that_live_already_are_built_on_and_not_repeated(draft, hidden):
    a, c = best(draft, hidden[6], 0)[0], best(draft, hidden[6], 1)[0]
    view = TreeView(TOKENS, (NodeView(7, 0, a, 8, -0.5), NodeView(8, 0, 299, 8, -1.5)))
    proposals = drafter_of(draft).draft(view, [frame(hidden, 0, 7)])
    assert (a,) not in paths(view, proposals)
    assert next(each for each in proposals if each.token == c).parent == 7


def test_the_tree_never_exceeds_its_bound(draft, hidden):
    view = TreeView(TOKENS, (NodeView(7, 0, 299, 8, -0.5),))
    assert len(drafter_of(draft, nodes=4).draft(view, [frame(hidden, 0, 7)])) == 3


@pytest.mark.parametrize("narrow", [{"nodes": 2}, {"least_probability": 0.25}])
@pytest.mark.parametrize("widens", [False, True])
def test_bounds_that_change_between_calls_hold_at_once(draft, hidden, narrow, widens):
    drafter, wide = drafter_of(draft), drafter_of(draft).expansion
    bounds = [(wide, 6), (replace(wide, **narrow), 2)]
    for (drafter.expansion, nodes), length in zip(reversed(bounds) if widens else bounds, (7, 8), strict=True):
        assert len(drafter.draft(TreeView(TOKENS[:length], ()), [frame(hidden, 0, length - 1)])) == nodes


def test_rows_behind_a_frames_count_are_not_there(draft, hidden):
    whole = frame(hidden, 0, 7)
    part = State(0, 0, 3, whole.kind, whole.dtype, whole.shape, whole.payload)
    said = best(draft, hidden[2], 0)[0]
    view = TreeView((*TOKENS[:4], said), ())
    assert (best(draft, hidden[2], 1)[0],) in paths(view, drafter_of(draft).draft(view, [part]))


def test_a_rewritten_history_forgets_what_it_rewrote(draft, hidden):
    drafter = drafter_of(draft)
    drafter.draft(TreeView(TOKENS, ()), [frame(hidden, 0, 7)])
    assert drafter.draft(TreeView((*TOKENS[:6], 1, 2), ())) == ()
    assert drafter.draft(TreeView((*TOKENS[:6], 1, 2), ()), [frame(hidden, 6, 7)])


def test_the_state_of_what_was_rewritten_takes_the_place_of_the_old(draft, hidden):
    drafter, rewritten = drafter_of(draft), TreeView((*TOKENS[:6], 1, 2), ())
    drafter.draft(TreeView(TOKENS, ()), [frame(hidden, 0, 7)])
    found = paths(rewritten, drafter.draft(rewritten, [frame(hidden.flip(0), 6, 7)]))
    assert {path[0] for path in found} == set(best(draft, hidden.flip(0)[6], 0))


def test_a_prompt_asked_again_is_drafted_for_from_the_states_that_it_left(draft, hidden):
    """Those before its last token and that token's own are not sent again."""
    drafter, prompt = drafter_of(draft), TreeView(TOKENS[:5], ())
    drafter.draft(prompt, [frame(hidden, 0, 4)])
    drafter.draft(TreeView(TOKENS, ()), [frame(hidden, 4, 7)])
    again = paths(prompt, drafter.draft(prompt))
    assert {path[0] for path in again} == set(best(draft, hidden[3], 0))
    answered = TreeView((*TOKENS[:5], 299), ())
    assert {path[0] for path in paths(answered, drafter.draft(answered))} == set(best(draft, hidden[4], 0))


@pytest.mark.parametrize(
    ("has_come", "then_asked", "taught"),
    [(7, 8, [20, 21]), (5, 8, [20]), (7, 10, [])],
    ids=["an answer", "an answer whose prompt the heads spoke of too", "the next question"],
)
def test_only_what_the_target_chose_teaches(draft, hidden, has_come, then_asked, taught):
    """The heads speak of three tokens, from the second behind the newest state on."""
    ranking, seen = Mock(), []
    ranking.offers.return_value = [Ranked(()), Ranked(()), Ranked(())]
    ranking.learn.side_effect = lambda offer, token: seen.append(token)
    drafter = MedusaDrafter(draft, torch.nn.Identity(), StateRequest("medusa"), rank=lambda *given: ranking)
    drafter.draft(TreeView(TOKENS, (), prompt_length=len(TOKENS)), [frame(hidden, 0, has_come)])
    drafter.draft(TreeView((*TOKENS, 20, 21), (), prompt_length=then_asked), [frame(hidden, 7, 8)])
    assert seen == taught


def test_a_repeated_turn_proposes_again(draft, hidden):
    drafter, view = drafter_of(draft), TreeView(TOKENS, ())
    first = drafter.draft(view, [frame(hidden, 0, 7)])
    drafter.draft(TreeView((*TOKENS, 5), ()))
    assert drafter.draft(view) == first


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    """By family, with what the target says behind `TOKENS`."""

    @cache
    def make(family):
        target = load_causal_lm(make_checkpoint(tmp_path_factory.mktemp(family), family), dtype=torch.float64)
        said = target.generate(torch.tensor([TOKENS]), max_new_tokens=30, do_sample=False, eos_token_id=None)
        return target, tuple(said[0, len(TOKENS) :].tolist())

    return make


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_rounds_say_what_the_target_says_with_gaps_in_the_state_too(targets, draft, family, seed):
    target, said = targets(family)
    channel = None if seed is None else LossyChannel(seed)
    packed = PackedModel(copy.deepcopy(target), 512, keep_hidden=True)
    answer = Rounds(packed, drafter_of(draft), [HiddenExporter(HIDDEN)], channel=channel).answer(TOKENS, 30)
    assert answer.tokens == said
    assert sum(answer.packed) > answer.passes  # it did draft
    assert channel is None or (channel.lost > 5 and channel.delivered > 5)


def perfect(target):
    """Heads for a target whose layers do nothing, so that each token implies the next, always right on the target's
    text."""
    with torch.no_grad():
        for name, weight in target.named_parameters():
            if "o_proj" in name or "down_proj" in name:
                weight.zero_()
        every = target.model.norm(target.get_input_embeddings().weight)
        follows = target.lm_head(every).argmax(-1).tolist()
        path = [TOKENS[-1]]
        while path[-1] not in path[:-1]:
            path.append(follows[path[-1]])
        draft = MedusaDraft(MedusaConfig(HIDDEN, VOCAB, ((1.0, 0.0),) * 3)).double()
        for index in range(3):
            weight = torch.zeros(VOCAB, HIDDEN, dtype=torch.float64)
            states = torch.linalg.pinv(every[path[:-1]])  # one column for each token of the path, to which it says 1
            for depth, token in enumerate(path[:-1]):
                came = token
                for _ in range(index + 2):
                    came = follows[came]
                weight[came] += states[:, depth]
            draft.heads[index].weight.copy_(weight)
        return draft


def test_perfect_heads_are_all_accepted(tmp_path):
    target = load_causal_lm(make_checkpoint(tmp_path / "target", "llama"), dtype=torch.float64)
    drafter = drafter_of(perfect(target))
    packed = PackedModel(target, 512, keep_hidden=True)
    answer = Rounds(packed, drafter, [HiddenExporter(HIDDEN)]).answer(TOKENS, 41)
    assert answer.accept_length == 4.0
    assert set(answer.packed) == {4}
