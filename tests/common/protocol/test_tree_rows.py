"""The rows of a tree are its nodes in order, whenever they are asked for."""

import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from common.protocol.messages import Draw, GrownNode
from common.protocol.tree import Node, TokenTree
from common.protocol.tree_rows import TreeRows

TOKENS = 4


def random_tree(draws: random.Random) -> TokenTree:
    """Grown and committed in turns, with twins, dead nodes and equally likely ones."""
    tree = TokenTree([draws.randrange(TOKENS)])
    tree.grouped = draws.random() < 0.3
    for _ in range(draws.randint(0, 6)):
        parents = [0, *(node.id for node in tree.nodes())]
        group = Draw((0, 1, 2, 3), (1, 2, 3, 4)) if draws.random() < 0.5 else None
        nodes = []
        for _ in range(draws.randint(1, 6)):
            id_, logp = tree.last_id + len(nodes) + 1, draws.choice([-0.5, -1.0, -draws.random()])
            nodes.append(GrownNode(id_, draws.choice(parents), draws.randrange(TOKENS), logp, group))
            parents.append(id_)
        tree.grow(tree.frontier, nodes)
        if draws.random() < 0.3:
            check(tree, tree.rows)
        if draws.random() < 0.3:
            tree.commit([draws.choice([*tree.root.children, 0]) for _ in range(draws.randint(1, 2))])
    return tree


def in_order(tree: TokenTree) -> list[Node]:
    nodes = list(tree.nodes())
    return nodes if tree.grouped else sorted(nodes, key=lambda node: node.score, reverse=True)


def check(tree: TokenTree, rows: TreeRows) -> None:
    nodes = in_order(tree)
    row_of = {node: row for row, node in enumerate(nodes, start=1)}
    above = [row_of.get(node.parent, 0) if node.parent else 0 for node in nodes]
    logps = [node.score - tree.root.score for node in nodes]
    depths = [node.position - tree.root.position for node in nodes]
    assert rows.tokens.tolist() == [tree.tokens[-1], *[node.token for node in nodes]]
    assert rows.parents.tolist() == [-1, *above]
    assert rows.depths.tolist() == [0, *depths]
    assert rows.deepest == max([0, *depths])
    assert rows.logps.tolist() == [0.0, *logps]
    assert rows.probabilities.tolist() == [1.0, *map(math.exp, logps)]
    assert rows.grouped == tree.grouped
    drawn = {row_of[node]: node.draw for node in nodes if node.draw is not None}
    assert rows.draws == (drawn if tree.grouped else {})


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_rows_are_the_nodes_in_order(seed: int) -> None:
    tree = random_tree(random.Random(seed))
    check(tree, tree.rows)


def test_rows_that_a_pass_reads_stay_as_they_are_while_the_tree_grows() -> None:
    tree = TokenTree([9])
    tree.grow(1, [GrownNode(1, 0, 5, -1.0)])
    before = tree.rows
    tree.grow(1, [GrownNode(2, 0, 6, -0.5)])
    assert before.tokens.tolist() == [9, 5]
    assert tree.rows.tokens.tolist() == [9, 6, 5]
    tree.commit([6])
    assert tree.rows.tokens.tolist() == [6]
