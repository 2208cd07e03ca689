"""Provisional text: the run that is shown before the target has committed it, where writing alone goes on, and how much
of it was retracted.

Pure. Knows the tree, not text or screens.
"""

import math
from collections.abc import Collection, Sequence
from itertools import takewhile

from common.protocol.prefix import common_prefix
from common.protocol.tree import Node, TokenTree

_LIKELY = math.log(0.5)
"""The least cumulative log-probability of a node that is not drafted again before somebody writes on alone."""


def likeliest_run(tree: TokenTree, room: int, ends: Collection[int] = (), written: Sequence[int] = ()) -> list[Node]:
    """The nodes below the root that the drafter holds likeliest, one a level: at most `room`, and none behind a token
    that ends the answer, for a tree may reach beyond its end. It begins with the tokens of `written`, as far as the
    tree has them."""
    run = nodes_along(tree, written[:room])
    node = run[-1] if run else tree.root
    while node.children and len(run) < room and not (run and node.token in ends):
        node = max(node.children.values(), key=lambda child: child.score)
        run.append(node)
    return run


def run_to_write_on(tree: TokenTree, room: int, ends: Collection[int], written: Sequence[int]) -> list[Node]:
    """The nodes behind which a drafter writes on alone: those with the tokens of `written`, and the likely part of the
    likeliest run behind them. In a tree of groups, which nothing can join, all of that run."""
    run = likeliest_run(tree, room, ends, written)
    if tree.grouped:
        return run
    kept = len(nodes_along(tree, written[:room]))
    return [*run[:kept], *takewhile(lambda node: node.score - tree.root.score >= _LIKELY, run[kept:])]


def nodes_along(tree: TokenTree, tokens: Sequence[int]) -> list[Node]:
    """The nodes below the root that carry these tokens, as far as the tree has them."""
    run: list[Node] = []
    for token in tokens:
        child = (run[-1] if run else tree.root).children.get(token)
        if child is None:
            break
        run.append(child)
    return run


class ProvisionalCount:
    """Counts tokens that were offered, and those of them that were retracted because the target or the drafter chose
    others."""

    def __init__(self) -> None:
        self.offered = 0
        self.retracted = 0
        self._run: tuple[int, ...] = ()

    def update(self, committed: Sequence[int], run: Sequence[int]) -> None:
        """`committed` tokens became final since the last update, and `run` is now offered behind them."""
        offered = (*committed, *run)
        kept = common_prefix(self._run, offered)
        self.retracted += len(self._run) - kept
        self.offered += len(offered) - max(kept, len(committed))
        self._run = tuple(run)
