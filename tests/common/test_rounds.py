import pytest

from common.drafters.best_first import Expansion
from common.drafters.independent import IndependentNetwork
from common.drafters.lookup import LookupDrafter
from common.drafters.tree_drafter import TreeDrafter
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.protocol.views import Proposal
from common.rounds import Rounds
from tests.families import make_checkpoint

VOCAB = 300
PROMPT = [5, 6, 7]
CHAIN = Expansion(breadth=1, children=1, nodes=4, least_probability=1e-12)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return make_checkpoint(tmp_path_factory.mktemp("target"), "llama", vocab=VOCAB)


def rounds(checkpoint, levels):
    """The target itself is the draft model."""
    target, draft = (PackedModel(load_causal_lm(checkpoint, dtype="float64"), 512) for _ in range(2))
    return Rounds(target, TreeDrafter(IndependentNetwork(draft, VOCAB), CHAIN), levels=levels)


def test_rounds_without_levels_decode_one_by_one(checkpoint):
    answer = rounds(checkpoint, levels=0).answer(PROMPT, 9)
    assert (len(answer.tokens), answer.passes, answer.levels) == (9, 9, 0)
    assert answer.packed == (1,) * 8
    assert answer.accept_length == 1


@pytest.mark.parametrize("levels", [4, 6])
def test_a_draft_changes_the_passes_and_not_the_answer(checkpoint, levels):
    """Levels beyond the four nodes of a chain propose nothing and are not counted."""
    plain = rounds(checkpoint, levels=0).answer(PROMPT, 11)
    answer = rounds(checkpoint, levels).answer(PROMPT, 11)
    assert answer.tokens == plain.tokens
    assert (answer.passes, answer.levels) == (3, 8)
    assert answer.packed == (5, 5)
    assert answer.accept_length == 5


def test_the_last_level_of_a_round_fills_the_tree_and_no_other_does(checkpoint):
    target, draft = (PackedModel(load_causal_lm(checkpoint, dtype="float64"), 512) for _ in range(2))
    narrow = Expansion(breadth=2, children=8, nodes=20, least_probability=1e-12)
    drafter = TreeDrafter(IndependentNetwork(draft, VOCAB), narrow)
    answer = Rounds(target, drafter, levels=3).answer(PROMPT, 11)
    assert answer.levels == 3 * (answer.passes - 1)
    assert set(answer.packed) == {1 + narrow.nodes}
    assert drafter.expansion == narrow


def test_an_answer_ends_at_its_limit_whatever_a_pass_committed_beyond(checkpoint):
    whole = rounds(checkpoint, levels=4).answer(PROMPT, 11).tokens
    late = next(token for token in whole[6:] if token not in whole[:6])
    assert rounds(checkpoint, levels=4).answer(PROMPT, 4, frozenset({late})).tokens == whole[:4]
    ended = rounds(checkpoint, levels=4).answer(PROMPT, 11, frozenset({late})).tokens
    assert ended == whole[: whole.index(late) + 1]


class Wrong:
    """Proposes four tokens below the root, none of which the target will choose."""

    kind, state = "wrong", None

    def __init__(self, right):
        self.expansion = CHAIN
        self._others = [token for token in range(1, VOCAB) if token not in right][:4]

    def draft(self, view, states=()):
        return [] if view.nodes else [Proposal(0, token, -1.0) for token in self._others]


def test_slots_of_what_is_rejected_are_used_again(checkpoint):
    plain = rounds(checkpoint, levels=0).answer(PROMPT, 20)
    target = PackedModel(load_causal_lm(checkpoint, dtype="float64"), len(PROMPT) + 20 + 4)
    answer = Rounds(target, Wrong(plain.tokens), levels=2).answer(PROMPT, 20)
    assert answer.tokens == plain.tokens
    assert answer.packed == (5,) * 19


class Nothing:
    """A channel that delivers nothing and records what it is given."""

    def __init__(self):
        self.told = []

    def deliver(self, frames, processed):
        self.told.append((len(frames), processed))
        return []


def test_a_channel_is_told_how_far_the_target_is(checkpoint):
    target = PackedModel(load_causal_lm(checkpoint, dtype="float64"), 512)
    channel = Nothing()
    answer = Rounds(target, LookupDrafter(), levels=0, channel=channel).answer(PROMPT, 4)
    assert channel.told == [(0, 0), (0, 3), (0, 4), (0, 5)]
    assert answer.state_bytes == 0
