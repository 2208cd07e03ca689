"""One session's tokens of a pass, from its session to the packed row, and what the pass did for the session. Data only.

It may not know what a K/V slot is: the server fills in the slots and reads them back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.protocol.messages import FromServer
from common.protocol.rules.verify_input import VerifyInput
from common.protocol.tree import Node

Replies = tuple[FromServer, ...]


@dataclass(frozen=True, slots=True)
class ScheduledTokens:
    """The `chain` at positions `start`, ..., then `nodes`, parents first.

    Where the chain ends at the root, the pass verifies: `verify_input` is what the session's rule walks over, and its
    row 0 is the root. `tokens`, `slots`, `parents`, `past_slots` and `wanted` are those of a segment of a packed pass
    (`common/models/segment.py`).
    """

    start: int
    chain: tuple[int, ...]
    nodes: tuple[Node, ...]
    verify_input: VerifyInput | None
    epoch: int
    slots: Sequence[int] = ()  # the K/V slot of each token
    past_slots: Sequence[int] | NDArray[np.int64] = ()  # and of each position before `start`

    def __len__(self) -> int:
        return len(self.chain) + len(self.nodes)

    @property
    def is_of_prompt(self) -> bool:
        """Whether it computes more of a sequence than what follows its root."""
        return len(self.chain) > 1 or self.verify_input is None

    @property
    def tokens(self) -> Sequence[int]:
        return self.chain if self.verify_input is None else [*self.chain, *self.verify_input.tokens[1:]]

    @property
    def parents(self) -> Sequence[int]:
        """The row of each token's parent; -1 for the end of what was processed before."""
        chain = range(-1, len(self.chain) - 1)
        if self.verify_input is None:
            return chain
        root = len(chain) - 1
        return [*chain, *[root + parent for parent in self.verify_input.parents[1:]]]

    @property
    def wanted(self) -> range:
        """The rows whose logits are wanted: the root's and every node's, none where the chain ends above the root."""
        root = len(self.chain) - 1
        return range(0) if self.verify_input is None else range(root, root + len(self.verify_input.tokens))

    def path(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Which of the nodes carry the tokens, from the first on, for as long as there are any."""
        below = {} if self.verify_input is None else self.verify_input.row_below
        path: list[int] = []
        row = 0
        for token in tokens:
            if (row, token) not in below:
                break
            row = below[row, token]
            path.append(row - 1)
        return tuple(path)


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a pass did for a session. `chain_kept` and `nodes_kept` (indices into the scheduled nodes, in sequence
    order) say whose K/V stay; the tokens of `accepted` nodes were committed."""

    chain_kept: bool
    nodes_kept: tuple[int, ...]
    replies: Replies
    accepted: int = 0
