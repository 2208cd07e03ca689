"""One session's share of a pass, as it is planned and as it is completed. Data only."""

from collections.abc import Sequence
from dataclasses import dataclass

from common.protocol.messages import FromServer
from common.protocol.rules.verify_input import VerifyInput
from common.protocol.tree import Node

Replies = tuple[FromServer, ...]


@dataclass(frozen=True, slots=True)
class ScheduledTokens:
    """One session's share of a pass: `chain` at positions `start`, ..., then `nodes`, parents first.

    Where the chain ends at the root, the pass answers the `question` with the tokens that it commits.
    """

    start: int
    chain: tuple[int, ...]
    nodes: tuple[Node, ...]
    verify_input: VerifyInput | None
    epoch: int

    @property
    def reaches_root(self) -> bool:
        return self.verify_input is not None

    def path(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Which of the nodes carry the tokens, from the first on, for as long as there are any."""
        index = {node: i for i, node in enumerate(self.nodes)}
        below = {(index.get(node.parent) if node.parent else None, node.token): i for node, i in index.items()}
        path: list[int] = []
        for token in tokens:
            at = below.get((path[-1] if path else None, token))
            if at is None:
                break
            path.append(at)
        return tuple(path)

    def __len__(self) -> int:
        return len(self.chain) + len(self.nodes)


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a pass did for a session. `chain_kept` and `nodes_kept` (indices into the scheduled nodes, in order)
    say whose K/V stay; the tokens of `accepted` nodes were committed."""

    chain_kept: bool
    nodes_kept: tuple[int, ...]
    replies: Replies
    accepted: int = 0
