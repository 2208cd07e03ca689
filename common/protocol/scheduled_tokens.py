"""One session's tokens of a pass, from its session to the packed row, and what the pass did for the session. Data only.

It may not know what a K/V slot is: the server fills in the slots and reads them back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from common.integers import Integers
from common.protocol.messages import FromServer
from common.protocol.rules.verify_input import VerifyInput

Replies = tuple[FromServer, ...]


@dataclass(frozen=True, eq=False, slots=True)
class ScheduledTokens:
    """The `chain` at positions `start`, ..., then nodes of the tree, parents first.

    Where the chain ends at the root, the pass verifies: `verify_input` is what the session's rule walks over; its row 0
    is the root, the others are the nodes. `tokens`, `slots`, `parents`, `past_slots` and `wanted` are those of a
    segment of a packed pass (`common/models/segment.py`).
    """

    start: int
    chain: tuple[int, ...]
    verify_input: VerifyInput | None
    epoch: int
    slots: Integers = ()  # the K/V slot of each token
    past_slots: Integers = ()  # and of each position before `start`

    def __len__(self) -> int:
        return len(self.chain) + self.nodes

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return 0 if self.verify_input is None else len(self.verify_input.tokens) - 1

    @property
    def is_of_prompt(self) -> bool:
        """Whether it computes more of a sequence than what follows its root."""
        return len(self.chain) > 1 or self.verify_input is None

    @property
    def tokens(self) -> Integers:
        rows = self.verify_input
        if rows is None:
            return self.chain
        # A session that decodes computes the rows of its tree and no more.
        return rows.tokens if len(self.chain) == 1 else [*self.chain, *rows.tokens[1:]]

    @property
    def parents(self) -> Integers:
        """The row of each token's parent; -1 for the end of what was processed before."""
        chain = range(-1, len(self.chain) - 1)
        if self.verify_input is None:
            return chain
        if len(chain) == 1:
            return self.verify_input.parents
        root = len(chain) - 1
        return [*chain, *[root + parent for parent in self.verify_input.parents[1:]]]

    @property
    def wanted(self) -> range:
        """The rows whose logits are wanted: the root's and every node's, none where the chain ends above the root."""
        root = len(self.chain) - 1
        return range(0) if self.verify_input is None else range(root, root + len(self.verify_input.tokens))

    def path(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Which of the nodes carry the tokens, from the first on, for as long as there are any."""
        if self.verify_input is None:
            return ()
        path: list[int] = []
        row = 0
        for token in tokens:
            below = self.verify_input.row_below.get((row, token))
            if below is None:
                break
            row = below
            path.append(row - 1)
        return tuple(path)


@dataclass(frozen=True, slots=True)
class SessionProgress:
    """What a pass did for a session. `chain_kept` and `nodes_kept` (indices into the scheduled nodes, in sequence
    order) say whose K/V stay; the tokens of `accepted` nodes were committed."""

    chain_kept: bool
    nodes_kept: tuple[int, ...]
    replies: Replies
    accepted: int = 0
