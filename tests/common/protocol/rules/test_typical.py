"""`typical` takes the longest path that the target finds plausible, then the target's own choice."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.protocol.messages import GrownNode, Settings
from common.protocol.rules import exact, typical
from common.protocol.rules.verify_input import make_verify_input
from common.protocol.sampling import LIKELIEST, Sampling
from common.protocol.tree import TokenTree
from tests.common.protocol.laws import random_law
from tests.common.protocol.rules.rows import Choices, Distributions, Samples

VOCABULARY = 6


def question_over(paths, sampling=LIKELIEST):
    """Nodes for paths; each path's parent comes before it."""
    tree = TokenTree([0])
    ids = {(): 0}
    for path in paths:
        ids[path] = tree.last_id + 1
        tree.grow(1, [GrownNode(ids[path], ids[path[:-1]], path[-1], -1.0)])
    return make_verify_input(tree, range(1, 1 + len(tree)), Settings(9, "typical", sampling=sampling))


def random_paths(rng, count):
    paths = [()]
    while len(paths) <= count:
        path = (*rng.choice(paths), rng.randrange(VOCABULARY))
        if path not in paths:
            paths.append(path)
    return paths[1:]


def plausible(p, token):
    """Medusa's published test, with its published numbers."""
    entropy = -sum(share * np.log(share) for share in p if share > 0)
    return p[token] > min(0.09, 0.3 * np.exp(-entropy))


def slowly(verify_input, law, choice):
    """Compares with an enumeration of all plausible paths."""
    paths = [tuple(verify_input.path(row)) for row in range(len(verify_input.tokens))]
    at: tuple[int, ...] = ()
    while True:
        below = [path for path in paths if path[: len(at)] == at]
        runs = [
            path
            for path in below
            if all(plausible(law(path[:depth]), path[depth]) for depth in range(len(at), len(path)))
        ]
        longest = max(map(len, runs))
        siblings = {path: index for index, path in enumerate(paths)}
        end = min(
            (path for path in runs if len(path) == longest),
            key=lambda path: [siblings[path[:depth]] for depth in range(len(at) + 1, len(path) + 1)],
        )
        at = (*end, choice(end))
        if at not in paths:
            return list(at)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**31), count=st.integers(0, 14), temperature=st.sampled_from([0.3, 1.0, 2.0]))
def test_the_walk_is_the_longest_plausible_run_then_the_targets_choice(seed, count, temperature):
    sampling = Sampling(temperature, seed=seed)
    law = random_law(seed, VOCABULARY, sampling)
    verify_input = question_over(random_paths(random.Random(seed), count), sampling)
    rows = Samples(verify_input, lambda path: law(tuple(path)))

    def choice(path):
        return next(
            rows.choice(row) for row in range(len(verify_input.tokens)) if tuple(verify_input.path(row)) == path
        )

    assert typical.walk(verify_input, rows) == slowly(verify_input, law, choice)


# Behind the root 1 is plausible, 2 just so, and 3 is not.
FLAT = np.array([0.0, 0.82, 0.10, 0.08])


def flat_rows(verify_input):
    return Distributions(verify_input, lambda path: FLAT)


@pytest.mark.parametrize(
    ("paths", "tokens"),
    [
        ([(1,), (2,), (2, 2)], [2, 2, 1]),
        ([(2,), (1,)], [2, 1]),
        ([(3,), (3, 1), (3, 1, 1)], [1]),
        ([(1,), (1, 3), (1, 3, 1), (2,)], [1, 1]),
    ],
    ids=["the longest, not the likeliest", "the first of equals", "not past what is implausible", "nor inside a run"],
)
def test_which_run_is_taken(paths, tokens):
    verify_input = question_over(paths)
    assert typical.walk(verify_input, flat_rows(verify_input)) == tokens


def test_a_choice_that_was_drafted_though_implausible_carries_the_walk_on():
    verify_input = question_over([(3,), (3, 1)])

    class Whim(Distributions):
        def choice(self, row):
            return 3 if row == 0 else 1

    rows = Whim(verify_input, lambda path: FLAT)
    # Behind the root the target itself samples 3; below it 1 is plausible, and behind that the target chooses 1.
    assert typical.walk(verify_input, rows) == [3, 1, 1]


@pytest.mark.parametrize(
    ("p", "least"),
    [(np.array([1.0, 0.0]), 0.09), (np.full(10, 0.1), 0.03), (np.full(1000, 0.001), 0.0003)],
    ids=["certain", "ten equal", "a thousand equal"],
)
def test_the_threshold_falls_with_entropy_and_never_exceeds_its_cap(p, least):
    assert typical.threshold(p) == pytest.approx(least)


@given(seed=st.integers(0, 2**31), count=st.integers(0, 14))
def test_where_all_probability_lies_on_one_token_it_is_greedy(seed, count):
    rng = random.Random(seed)
    verify_input = question_over(random_paths(rng, count))
    rows = Choices([rng.randrange(VOCABULARY) for _ in verify_input.tokens], VOCABULARY)
    assert typical.walk(verify_input, rows) == exact.walk(verify_input, rows)


class Counted(Distributions):
    """Counts the rows whose distributions are asked for."""

    def __init__(self, verify_input, of):
        super().__init__(verify_input, of)
        self.asked = 0

    def probabilities(self, row):
        self.asked += 1
        return super().probabilities(row)


def walked(paths, law):
    judged = question_over(paths)
    counted = Counted(judged, law)
    return typical.walk(judged, counted), counted.asked


def test_a_wide_tree_costs_everybody_little():
    wide = 200

    def law(path):
        return np.full(wide + 1, 1.0 / (wide + 1))  # each token is plausible

    tokens, rows = walked([*((each,) for each in range(wide)), *((each, each) for each in range(wide))], law)
    assert tokens[:2] == [0, 0]
    assert rows <= 40
    chain, rows = walked([tuple(range(depth)) for depth in range(1, wide)], law)
    assert chain[:-1] == list(range(wide - 1)), "what is committed is searched whole"
    assert rows <= wide + 1
