"""What every drafter is."""

from collections.abc import Sequence
from typing import Protocol

from common.protocol.views import Proposal, TreeView


class Drafter(Protocol):
    """Proposes tokens for one session at a time.

    Drafters keep what they computed (their K/V, their index) between calls and follow the view: committed tokens
    that extend what they hold are taken over, a rewritten history costs only what changed.
    """

    kind: str

    def draft(self, view: TreeView) -> Sequence[Proposal]:
        """One level of drafting: proposals that extend the view's tree, parents first.

        Empty where nothing is worth proposing until the view changes. Called from one thread at a time, but not
        always the same one.
        """
        ...
