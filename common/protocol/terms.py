"""What a server offers to every session: its target's dimensions, and the bounds that protect it."""

from dataclasses import dataclass

from common.protocol.ends import Detokenise


@dataclass(frozen=True)
class Terms:
    fingerprint: str  # of the target
    vocab_size: int
    context: int  # tokens of the longest sequence
    end_tokens: frozenset[int]
    detokenise: Detokenise
    idle: str = "eager"  # the policy of sessions that name none
    run_ahead: int = 128  # tokens committed past what the client has acknowledged
    max_nodes: int = 512  # live nodes of one tree

    @property
    def max_names(self) -> int:
        """Ids of one session that may still mean something: each node and each unacknowledged token a few times."""
        return 4 * (self.max_nodes + self.run_ahead)
