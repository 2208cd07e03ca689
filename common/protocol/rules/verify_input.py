"""The verify input of one session: its rows of a pass, and the target's answer at each. Pure; rules decide
elsewhere."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from common.protocol.constraint import AnswerConstraint
from common.protocol.messages import Draw, Settings
from common.protocol.sampling import Sampling
from common.protocol.tree import Node, TokenTree


@dataclass(frozen=True, slots=True)
class VerifyInput:
    """Row 0 is the root, which carries the last of `frontier` committed tokens; the other rows are nodes, parents
    first and siblings in the order of their ids. Immutable, so that a pass may verify while the session changes."""

    rule: str
    sampling: Sampling
    frontier: int
    tokens: tuple[int, ...]  # of each row
    parents: tuple[int, ...]  # the row of each row's parent, -1 for the root's
    draws: Mapping[int, Draw] = field(default_factory=dict)  # what a row's children were drawn from
    seen: tuple[int, ...] = ()  # the committed tokens, where processors ask for them
    deferred: frozenset[int] = frozenset()
    """Rows of nodes whose group is in the tree, but not in this pass: the walk stops there, the next pass verifies
    it."""
    prompt_length: int = 0
    constraint: AnswerConstraint | None = None
    row_below: Mapping[tuple[int, int], int] = field(init=False, repr=False, compare=False)
    """The row with a token below a row."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "row_below", dict(zip(zip(self.parents, self.tokens, strict=True), count())))

    def children(self) -> list[list[int]]:
        """The rows below each row."""
        below: list[list[int]] = [[] for _ in self.tokens]
        for row, parent in enumerate(self.parents[1:], start=1):
            below[parent].append(row)
        return below

    def path(self, row: int) -> list[int]:
        """The tokens from below the root to this row's own."""
        tokens = []
        while row > 0:
            tokens.append(self.tokens[row])
            row = self.parents[row]
        return tokens[::-1]


def make_verify_input(
    tree: TokenTree,
    nodes: Sequence[Node],
    settings: Settings,
    last: float = math.inf,
    prompt_length: int = 0,
    constraint: AnswerConstraint | None = None,
) -> VerifyInput:
    """The verify input of a pass over the tree's root and `nodes`: parents first, siblings as they came. Nodes at
    positions from `last` on can never be committed."""
    rows: dict[Node | None, int] = dict(zip(nodes, count(1)))
    parents = [rows.get(node.parent, 0) for node in nodes]
    deferred = frozenset(rows[node] for node in nodes if _waits(node, rows, last)) if tree.grouped else frozenset()
    sampling = settings.sampling
    return VerifyInput(
        settings.rule,
        sampling,
        tree.frontier,
        (tree.tokens[-1], *[node.token for node in nodes]),
        (-1, *parents),
        {parent: node.draw for parent, node in zip(parents, nodes, strict=True) if node.draw} if tree.grouped else {},
        tuple(tree.tokens) if sampling.looks_back or constraint is not None else (),
        deferred,
        prompt_length,
        constraint,
    )


def _waits(node: Node, rows: Mapping[Node | None, int], last: float) -> bool:
    """Whether the group below a node is left to a later pass: a group is in a pass whole or not at all."""
    first = next(iter(node.children.values()), None)
    return first is not None and first not in rows and first.position < last


class TargetRows(Protocol):
    """The target at the rows of a verify input. Only rows that a rule visits are computed."""

    def choice(self, row: int) -> int:
        """The token that the target, decoding alone, puts behind this row: the likeliest at temperature 0, else its
        sample for the seed."""
        ...

    def probabilities(self, row: int) -> NDArray[np.float64]:
        """The target's distribution behind this row, after all processors: `[vocabulary]`, the caller's own."""
        ...
