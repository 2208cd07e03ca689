"""`lookup`: proposes the tokens that followed the last occurrence of the newest n-gram. It needs no model.

Prompt lookup decoding (Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding), continued behind every node of the
tree, whoever proposed it, the likeliest first. The log-probability of a proposal is learnt: how often matches of that
length were right.
"""

from typing import TYPE_CHECKING

from common.drafters.best_first import Expansion
from common.drafters.ngram_drafter import NgramDrafter
from common.drafters.ngram_pool import TextPool
from common.protocol.views import Proposal, TreeView

if TYPE_CHECKING:
    from common.drafters.load import DrafterConfig, DrafterFactory

_LONGEST_MATCH = 5
_SPAN = 16  # tokens proposed at a time


def load(config: "DrafterConfig") -> "DrafterFactory":
    """There are no weights to load."""
    return lambda: LookupDrafter(config.expansion)


class LookupDrafter(NgramDrafter):
    kind = "lookup"

    def __init__(self, expansion: Expansion = Expansion()) -> None:  # noqa: B008
        """Of `expansion`, only the number of nodes bounds its tree."""
        super().__init__(expansion, TextPool(_LONGEST_MATCH, most=1))

    def _propose(self, view: TreeView, room: int) -> list[Proposal]:
        return self._likeliest(view, min(room, _SPAN))
