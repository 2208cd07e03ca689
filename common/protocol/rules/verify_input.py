"""The verify input of one session: its rows of a pass, and the target's answer at each. Pure; rules decide
elsewhere."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from common.integers import Integers
from common.protocol.constraint import AnswerConstraint
from common.protocol.messages import Draw, Settings
from common.protocol.sampling import Sampling
from common.protocol.tree import TokenTree


@dataclass(frozen=True, eq=False, slots=True)
class VerifyInput:
    """Row 0 is the root, which carries the last of `frontier` committed tokens; the other rows are nodes, parents
    first; siblings of a group as they came, others the likeliest first. Immutable, so that a pass may verify while the
    session changes."""

    rule: str
    sampling: Sampling
    frontier: int
    tokens: Integers  # of each row
    parents: Integers  # the row of each row's parent, -1 for the root's
    draws: Mapping[int, Draw] = field(default_factory=dict)  # what a row was drawn from, where it was
    seen: tuple[int, ...] = ()  # the committed tokens, where processors ask for them
    deferred: frozenset[int] = frozenset()
    """Rows of nodes whose group is in the tree, but not in this pass: the walk stops there, the next pass verifies
    it."""
    prompt_length: int = 0
    constraint: AnswerConstraint | None = None
    top_logprobs: int | None = None  # that the session asks for beside each committed token's own
    row_below: Mapping[tuple[int, int], int] = field(init=False, repr=False)
    """The row with a token below a row."""

    def __post_init__(self) -> None:
        parents, tokens = np.asarray(self.parents).tolist(), np.asarray(self.tokens).tolist()
        object.__setattr__(self, "row_below", dict(zip(zip(parents, tokens, strict=True), count())))

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
            tokens.append(int(self.tokens[row]))
            row = int(self.parents[row])
        return tokens[::-1]


def make_verify_input(
    tree: TokenTree,
    nodes: Sequence[int],
    settings: Settings,
    room: float = math.inf,
    prompt_length: int = 0,
    constraint: AnswerConstraint | None = None,
) -> VerifyInput:
    """The verify input of a pass over the tree's root and the `nodes` of these rows of the tree: parents first,
    siblings in the order of these rows. Nodes from depth `room` on can never be committed."""
    rule, sampling, rows = settings.rule, settings.sampling, tree.rows
    seen = tuple(tree.tokens) if sampling.looks_back or constraint is not None else ()
    if isinstance(nodes, range) and not tree.grouped:
        taken = slice(nodes.stop)
        return VerifyInput(
            rule,
            sampling,
            tree.frontier,
            rows.tokens[taken],
            rows.parents[taken],
            seen=seen,
            prompt_length=prompt_length,
            constraint=constraint,
            top_logprobs=settings.top_logprobs,
        )
    row_of = dict(zip((-1, 0, *nodes), count(-1)))
    order = np.array([0, *nodes])
    parents = [row_of[parent] for parent in rows.parents[order].tolist()]
    waiting: set[int] = set()
    if tree.grouped:
        # A group is in a pass whole or not at all.
        every = zip(range(len(rows)), rows.parents.tolist(), rows.depths.tolist(), strict=True)
        waiting = {row_of[above] for row, above, at in every if above in row_of and row not in row_of and at < room}
    return VerifyInput(
        settings.rule,
        sampling,
        tree.frontier,
        rows.tokens[order],
        np.array(parents),
        {row_of[row]: draw for row, draw in rows.draws.items() if row in row_of},
        seen,
        frozenset(waiting - {0}),
        prompt_length,
        constraint,
        settings.top_logprobs,
    )


class TargetRows(Protocol):
    """The target at the rows of a verify input. Only rows that a rule visits are computed."""

    def choice(self, row: int) -> int:
        """The token that the target, decoding alone, puts behind this row: the likeliest at temperature 0, else its
        sample for the seed."""
        ...

    def probabilities(self, row: int) -> NDArray[np.float64]:
        """The target's distribution behind this row, after all processors: `[vocabulary]`, the caller's own."""
        ...
