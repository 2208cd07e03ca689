"""`lookahead` and `ouroboros`: what each has in its pool, beside the target and far from it; that nothing is left of a
text that was rewritten; and the bounds of their trees."""

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.drafters.best_first import Expansion
from common.drafters.lookahead import JacobiWindow, LookaheadDrafter
from common.drafters.lookup import LookupDrafter
from common.drafters.merged import MergedDrafter
from common.drafters.ouroboros import OuroborosDrafter
from common.protocol.views import NodeView, Proposal, TargetChoices, TreeView
from tests.common.drafters.beside_target import BesideTarget
from tests.common.drafters.growing import Growing

KINDS = [LookupDrafter, LookaheadDrafter, OuroborosDrafter]
PHRASES = KINDS[1:]
VOCAB = 5
TOKENS = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=12)


def next_of(tokens: Sequence[int]) -> int:
    """Of a target that never repeats itself, so that no text tells its next token. It looks at the place alone, so that
    what it says behind wrong guesses is right, as it often is in Jacobi iteration."""
    return 7 * len(tokens) % 1009


def committed(drafter, rounds: int, tells: bool, following=next_of) -> list[int]:
    """How many tokens each round commits."""
    beside = BesideTarget(drafter, following, [5, 6], tells)
    return [len(beside.round()) for _ in range(rounds)]


def some_view(tokens: Sequence[int], draws: random.Random, with_choices: bool) -> TreeView:
    """A random tree below these tokens, and choices of a pass that committed the last of them."""
    nodes: list[NodeView] = []
    for id_ in range(1, draws.randint(1, 6)):
        parent = draws.randrange(id_)
        above = nodes[parent - 1].logp if parent else 0.0
        nodes.append(NodeView(id_, parent, VOCAB + id_, len(tokens), above - draws.random()))
    rows = range(1, draws.randint(1, 6))
    chosen = TargetChoices(
        frontier=len(tokens) - 1,
        tokens=[0, *(draws.randrange(VOCAB) for _ in rows)],
        parents=[-1, *range(len(rows))],
        choices=[draws.randrange(VOCAB) for _ in (0, *rows)],
    )
    # The whole text is prompt, so that nothing is learnt of what pools are worth.
    choices = chosen if with_choices and len(tokens) > 1 else None
    return TreeView(tuple(tokens), tuple(nodes), prompt_length=len(tokens), choices=choices)


@pytest.mark.parametrize("kind", KINDS)
@given(edits=st.lists(st.tuples(st.integers(0, 20), TOKENS), min_size=1, max_size=4), seed=st.integers(0, 99))
@settings(max_examples=60)
def test_after_a_rewritten_text_it_drafts_as_one_that_never_saw_the_old_one(kind, edits, seed):
    draws, tokens, drafter = random.Random(seed), [0], kind()
    for keep, more in edits:
        drafter.draft(some_view(tokens, draws, with_choices=True))
        tokens = [*tokens[:keep], *more]
        # A token that is in no other text: this is no longer one that goes on with the last.
        drafter.draft(some_view([*tokens, 2 * VOCAB], draws, with_choices=True))
    after = some_view(tokens, draws, with_choices=False)
    assert list(drafter.draft(after)) == list(kind().draft(after))


def test_the_window_brings_forth_what_no_text_holds_and_only_beside_the_target():
    assert max(committed(LookupDrafter(), 12, tells=True)) == 1
    assert max(committed(LookaheadDrafter(), 12, tells=False)) == 1
    beside = committed(LookaheadDrafter(), 12, tells=True)
    assert beside[0] == 1
    assert sum(beside[4:]) > 2 * len(beside[4:])


@pytest.mark.parametrize("kind", PHRASES)
def test_what_phrases_are_worth_is_learnt_and_text_is_none(kind):
    drafter, tokens = kind(), (1, 2, 3)
    drafter.draft(TreeView((1, 2), ()))
    refused = TargetChoices(frontier=2, tokens=[2, 8], parents=[-1, 0], choices=[3, 4])
    drafter.draft(TreeView(tokens, (), choices=refused))  # 4 behind (2, 8) is a phrase now

    def told() -> dict[int, float]:
        return {token: record.logp for token, record in drafter._phrases.after((2, 8)).items()}

    claimed, held = told(), dict(drafter._phrases._next)
    for _ in range(10):
        for behind in ((2, 8), (5,)):  # the target never says 4 there
            tokens += behind
            drafter.draft(TreeView(tokens, (), choices=refused))
    assert list(claimed) == list(told()) == [4]
    assert told()[4] < claimed[4]
    assert drafter._phrases._next == held


def test_a_window_moves_on_by_as_many_places_as_were_committed():
    window, tokens = JacobiWindow(), [*range(100, 110)]
    window.follow(tokens, {}, columns=3)
    last = max(window.paths(), key=len)
    window.follow([*tokens, 1, 2, 3], {last: 7}, columns=3)
    assert (*last[3:], 7) in window.paths()


@pytest.mark.parametrize("kind", PHRASES)
def test_beside_the_target_it_learns_what_that_puts_behind_what_it_refuses(kind):
    """The target refuses 8 below 2, and would go on with 4 behind it, which no text has."""
    drafter = kind()
    drafter.draft(TreeView((1, 2), ()))
    refused = TargetChoices(frontier=2, tokens=[2, 8], parents=[-1, 0], choices=[3, 4])
    drafter.draft(TreeView((1, 2, 3), (), choices=refused))
    found = drafter.draft(TreeView((1, 2, 3, 8), (), choices=refused))
    assert (found[0].parent, found[0].token) == (0, 4)
    told_nothing = kind()
    told_nothing.draft(TreeView((1, 2, 3), ()))
    assert 4 not in [each.token for each in told_nothing.draft(TreeView((1, 2, 3, 8), ()))]


def test_ouroboros_goes_on_with_what_others_drafted_before():
    drafter = OuroborosDrafter()
    drafted = (NodeView(1, 0, 6, 3, -0.1), NodeView(2, 1, 7, 4, -0.2))
    drafter.draft(TreeView((1, 2, 3), drafted))
    found = drafter.draft(TreeView((1, 2, 3, 5), (NodeView(3, 0, 6, 4, -0.1),)))
    assert (3, 7) in [(each.parent, each.token) for each in found]
    without = OuroborosDrafter()
    without.draft(TreeView((1, 2, 3), ()))
    assert not without.draft(TreeView((1, 2, 3, 5), (NodeView(3, 0, 6, 4, -0.1),)))


@pytest.mark.parametrize("kind", PHRASES)
def test_a_chain_goes_on_before_what_is_less_likely_than_its_end_is_tried_beside_it(kind):
    tokens = (2, 3, 9, 2, 7, 9, 2, 8, 4, 5, 6, 2)
    found = kind(Expansion(nodes=3)).draft(TreeView(tokens, (), prompt_length=len(tokens)))
    assert [(each.parent, each.token) for each in found] == [(0, 8), (-1, 4), (-2, 5)]


class NextNumber:
    """Goes on behind the deepest node with the next number."""

    kind, state, expansion = "next number", None, Expansion()

    def draft(self, view, states=()):
        deepest = max(view.paths, key=lambda id_: len(view.paths[id_]))
        return [Proposal(deepest, (*view.tokens, *view.paths[deepest])[-1] + 1, math.log(0.9))]


def test_merged_it_goes_on_behind_the_others_tokens_with_what_they_drafted_before():
    growing = Growing(MergedDrafter([NextNumber()], [OuroborosDrafter()]), [1, 2, 3], 50)
    for _ in range(3):
        assert len(growing.draft()) == 1
    growing.commit([40, 3])
    found = [(*path[5:], each.token) for path, each in growing.draft()]
    assert {(4,), (4, 5), (4, 5, 6)} <= {*found}


@pytest.mark.parametrize("kind", PHRASES)
@pytest.mark.parametrize("nodes", [1, 5, 40])
def test_its_tree_keeps_to_its_bounds(kind, nodes):
    """Trees refuse a node without its parent, and one that is there already has no second."""
    drafter = kind(Expansion(nodes=nodes))
    beside = BesideTarget(drafter, lambda tokens: (tokens[-1] * tokens[-2] + 1) % 4, [1, 2, 3])
    for _ in range(12):
        beside.round(levels=6)
        assert beside.tree.stale == 0
    assert max(len(view.nodes) for view in beside.views) <= nodes


def test_a_window_takes_no_more_than_its_share_and_comes_once_for_each_root():
    drafter = LookaheadDrafter(Expansion(nodes=60))
    beside = BesideTarget(drafter, next_of, [5, 6])
    for _ in range(6):
        beside.round(levels=4)
    of_window = [sum(node.logp < math.log(1e-5) for node in view.nodes) for view in beside.views]
    # Each round's first view is of a bare root; no later level of it adds to the window.
    later = [of_window[first : first + 3] for first in range(1, len(of_window), 4)]
    assert all(len({*counts}) == 1 for counts in later)
    counts = [counts[0] for counts in later]
    assert counts[0] == 0, "nothing was chosen yet"
    assert all(0 < count <= 30 for count in counts[1:])


@pytest.mark.parametrize("kind", PHRASES)
def test_answers_are_the_targets_own(kind):
    following = lambda tokens: (tokens[-1] * tokens[-2] + 1) % 6  # noqa: E731
    beside = BesideTarget(kind(), following, [1, 2, 3])
    for _ in range(20):
        beside.round()
    alone = [1, 2, 3]
    while len(alone) < len(beside.tree.tokens):
        alone.append(following(alone))
    assert list(beside.tree.tokens) == alone
    assert len(alone) > 60
