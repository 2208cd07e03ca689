"""`speculative` keeps the target's distribution whatever was drafted, and accepts as much of it as it can."""

import random
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.protocol.messages import Draw, GrownNode, Settings
from common.protocol.rules import speculative
from common.protocol.rules.verify_input import VerifyInput, make_verify_input
from common.protocol.sampling import Sampling
from common.protocol.tree import TokenTree
from tests.chances import misfit, share_is
from tests.common.protocol.laws import sequence_chances
from tests.common.protocol.rules.rows import Distributions
from tests.compared import Comparisons

# The target's probabilities in hundredths behind no token and behind each; it never chooses 4 or 5.
ROOT = (43, 31, 19, 7, 0, 0)
BELOW = ((10, 55, 5, 30, 0, 0), (62, 3, 30, 5, 0, 0), (1, 9, 80, 10, 0, 0), (25, 25, 25, 25, 0, 0))

Group = list[tuple[int, Draw | None]]
Draft = Callable[[tuple[int, ...], random.Random], Group]
"""The group of tokens that is proposed behind a prefix."""


def hundredths(prefix):
    if not prefix:
        return ROOT
    return BELOW[prefix[0] % 4] if len(prefix) == 1 else ROOT


def law(prefix):
    return np.array(hundredths(tuple(prefix))) / 100


def weights_like(skill, prefix):
    """The drafter's estimate of the target's distribution."""
    right = hundredths(prefix)
    if skill == "always":
        return right
    return (0, 0, 0, 0, 70, 30) if skill == "never" else (*right[3::-1], 20, 0)


def drawn(count, skill, prefix, rng) -> Group:
    weights = weights_like(skill, prefix)
    left = {token: weight for token, weight in enumerate(weights) if weight}
    draw = Draw(tuple(left), tuple(left.values()))
    group: Group = []
    for _ in range(min(count, len(left))):
        token = rng.choices(list(left), list(left.values()))[0]
        del left[token]
        group.append((token, draw))
    return group


def picked(count, skill, prefix, rng) -> Group:
    best = np.argsort(weights_like(skill, prefix))[::-1]
    return [(int(token), None) for token in best[:count]]


def mixed(skill, prefix, rng) -> Group:
    """Some nodes get drawn children, some picked ones, some none."""
    shape = (sum(prefix) + len(prefix)) % 4
    return [drawn, drawn, picked, picked][shape](shape or 2, skill, prefix, rng)


def of_two(skill, prefix, rng) -> Group:
    """Of two drafters, of which the second leaves out what the first has drawn, and a picked token between them."""
    first = drawn(2, skill, prefix, rng)
    between = [(token, None) for token, _ in picked(1, "sometimes", prefix, rng)]
    group: Group = []
    for token, draw in [*first, *between, *drawn(2, "always" if skill == "sometimes" else "sometimes", prefix, rng)]:
        if token not in (before for before, _ in group):
            group.append((token, draw))
    return group


SHAPES = {
    "two drafters": of_two,
    "chain": partial(drawn, 1),
    "drawn tree": partial(drawn, 3),
    "point masses": partial(picked, 2),
    "mixed": mixed,
}


def verify_input(draft: Draft, seed: int, levels: int = 2) -> VerifyInput:
    """Levels of groups below a root at position 0, for the seed."""
    rng = random.Random(seed)
    tree = TokenTree([0])
    tree.grouped = True
    above = {0: ()}
    for _ in range(levels):
        nodes, paths = [], {}
        for parent, prefix in above.items():
            for token, draw in draft(prefix, rng):
                id_ = tree.last_id + len(nodes) + 1
                nodes.append(GrownNode(id_, parent, token, -1.0, draw))
                paths[id_] = (*prefix, token)
        tree.grow(1, nodes)
        above = paths
    return make_verify_input(
        tree, range(1, 1 + len(tree)), Settings(9, "speculative", sampling=Sampling(1.0, seed=seed))
    )


def walk(asked: VerifyInput, before=()) -> list[int]:
    return speculative.walk(asked, Distributions(asked, lambda path: law((*before, *path))))


def alone(seed, before) -> list[int]:
    asked = VerifyInput("speculative", Sampling(1.0, seed=seed), 1 + len(before), (0,), (-1,))
    return walk(asked, before)


def two_tokens(draft, seed) -> tuple[int, ...]:
    """A pass over a tree, then passes without one."""
    tokens = walk(verify_input(draft, seed))
    while len(tokens) < 2:
        tokens += alone(seed, tuple(tokens))
    return tuple(tokens[:2])


@pytest.mark.parametrize("skill", ["never", "sometimes", "always"])
@pytest.mark.parametrize("shape", SHAPES)
def test_two_tokens_are_distributed_as_the_targets_own(shape, skill):
    counts = np.zeros((6, 6))
    for seed in range(5_000):
        counts[two_tokens(partial(SHAPES[shape], skill), seed)] += 1
    assert misfit(counts, sequence_chances(law, (), 2)) < 1


def test_a_chains_token_is_accepted_as_often_as_target_and_draft_agree():
    tries, accepted = 8_000, 0
    for seed in range(tries):
        asked = verify_input(partial(drawn, 1, "sometimes"), seed, levels=1)
        accepted += len(walk(asked)) == 2
    p, q = np.array(ROOT) / 100, np.array(weights_like("sometimes", ())) / 120
    assert share_is(accepted, tries, np.minimum(p, q).sum())


@pytest.mark.parametrize("width", [2, 3, 5])
def test_siblings_only_add_to_what_is_accepted(width):
    gained = 0
    for seed in range(400):
        one, more = (walk(verify_input(partial(drawn, count, "sometimes"), seed, levels=1)) for count in (1, width))
        assert len(more) >= len(one)
        gained += len(more) > len(one)
    assert gained > 20


@pytest.mark.parametrize("width", [1, 3])
def test_a_draft_that_is_the_target_is_accepted_at_once(width):
    for seed in range(300):
        asked = verify_input(partial(drawn, width, "always"), seed)
        tokens = walk(asked)
        first = asked.children()[0][0]
        second = asked.children()[first][0]
        assert tokens[:2] == [asked.tokens[first], asked.tokens[second]]
        assert len(tokens) == 3


class Highest:
    """Only at the largest value that a uniform number can have."""

    def next(self):
        return 1 - 2**-53


def test_a_draft_that_is_the_target_to_within_rounding_is_accepted_even_where_rounding_says_no():
    weights = (1, 2, 3, 4, 5, 6, 7)
    q = np.array(weights) / 28
    p = np.nextafter(np.nextafter(q, 0), 0)
    for token in range(7):
        accepted, _ = speculative.judge(p.copy(), [token], [Draw(tuple(range(7)), weights)], Highest())
        assert accepted == 0


def test_many_siblings_that_are_all_rejected_are_not_compared_with_each_other():
    """Which took half a second of a pass for as many as a frame may hold."""
    compared = Comparisons()
    group = [compared.of(token) for token in range(100)]
    draws = [Draw((token, *map(compared.of, range(1000, 1050))), (1,) * 51) for token in group]
    p = np.zeros(1200)
    p[-1] = 1.0
    accepted, _ = speculative.judge(p, group, draws, Highest())
    assert accepted is None
    assert compared.count < 2 * sum(len(draw.tokens) for draw in draws)


def test_the_same_seed_and_tree_give_the_same_tokens():
    draft = partial(drawn, 3, "sometimes")
    assert [walk(verify_input(draft, seed)) for seed in range(50)] == [
        walk(verify_input(draft, seed)) for seed in range(50)
    ]


@st.composite
def lies(draw):
    """A distribution with gaps, a group, and a Draw that has nothing to do with either but the group's tokens."""
    shares = np.array(draw(st.lists(st.sampled_from([0.0, 1e-300, 1e-9, 0.5, 1.0]), min_size=8, max_size=8)))
    shares[draw(st.integers(0, 7))] = 1.0
    named = draw(st.permutations(range(8)))[: draw(st.integers(1, 8))]
    weights = draw(st.lists(st.sampled_from([1, 2, 1000, 2**28]), min_size=len(named), max_size=len(named)))
    group = draw(st.permutations(named))[: draw(st.integers(1, len(named)))]
    return shares / shares.sum(), group, Draw(tuple(named), tuple(weights)) if draw(st.booleans()) else None


@settings(max_examples=400, deadline=None)
@given(lie=lies(), seed=st.integers(0, 2**64 - 1))
def test_a_draw_that_lies_gives_nothing_that_the_target_would_not_say(lie, seed):
    p, group, draw = lie
    draws = {row: draw for row in range(1, 1 + len(group)) if draw is not None}
    asked = VerifyInput("speculative", Sampling(1.0, seed=seed), 1, (0, *group), (-1, *[0] * len(group)), draws)
    tokens = speculative.walk(asked, Distributions(asked, lambda path: p))
    assert 1 <= len(tokens) <= 2
    assert all(p[token] > 0 for token in tokens)


def test_a_sample_lies_where_its_chance_does():
    p = np.array([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
    uniforms = [2**-53, 0.2499, 0.2501, 0.7499, 0.7501, 1 - 2**-53]
    assert [speculative.sample(p, uniform) for uniform in uniforms] == [1, 1, 3, 3, 4, 4]
    assert speculative.sample(p / 3, 1.0) == 4


def test_a_walk_ends_at_a_node_whose_group_is_left_to_the_next_pass():
    """There it chooses nothing: the group would be lost, with a probability that depends on what was drawn."""
    tree = TokenTree([0])
    tree.grouped = True
    tree.grow(1, [GrownNode(1, 0, 3, -0.1), GrownNode(2, 1, 4, -0.1)])
    sure = lambda path: np.eye(6)[[3, 4, 5][len(path)]]  # noqa: E731
    for nodes, room, committed in (([1, 2], 9, [3, 4, 5]), ([1], 9, [3]), ([1], 2, [3, 4])):
        asked = make_verify_input(tree, nodes, Settings(9, "speculative", sampling=Sampling(1.0)), room)
        assert speculative.walk(asked, Distributions(asked, sure)) == committed


def pair_of_an_unfair_pass(seed: int) -> tuple[int, int]:
    """A chain of two drawn nodes, of which the first pass takes the second only where it is even."""
    rng = random.Random(seed)
    tree = TokenTree([0])
    tree.grouped = True
    ((first, draw),) = drawn(1, "sometimes", (), rng)
    tree.grow(1, [GrownNode(1, 0, first, -1.0, draw)])
    ((second, draw),) = drawn(1, "sometimes", (first,), rng)
    tree.grow(1, [GrownNode(2, 1, second, -1.0, draw)])
    tokens: list[int] = []
    while len(tokens) < 2:
        nodes = [row for row, node in enumerate(tree.nodes(), 1) if tokens or node.id == 1 or node.token % 2 == 0]
        asked = Settings(9, "speculative", sampling=Sampling(1.0, seed=seed))
        chosen = walk(make_verify_input(tree, nodes, asked), tuple(tokens))
        tree.commit(chosen)
        tokens += chosen
    return tokens[0], tokens[1]


def test_whichever_group_a_pass_leaves_out_the_law_is_kept():
    pairs = np.zeros((6, 6))
    for seed in range(4_000):
        pairs[pair_of_an_unfair_pass(seed)] += 1
    assert misfit(pairs, sequence_chances(law, [], 2)) < 1
