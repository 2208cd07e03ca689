"""`ouroboros`: phrases of earlier drafts lengthen the present ones. It needs no model, and is meant for beside one.

Ouroboros (Zhao et al. 2024, arXiv 2402.13720): what a draft model proposed and the target refused stays in a pool of
phrases, and a draft goes on with those that begin with its last tokens. Here phrases follow every node of the tree,
the likeliest first, and the draft model goes on behind them in its next level, so that they also save it levels. The
pool holds what all that share the tree proposed, and beside the target what that would have put behind refused nodes,
which crosses no link. The paper's draft model also decodes by lookahead; a tree needs one forward for a level as it
is. Without a draft model and without a target beside it, the pool is the text alone.
"""

from typing import TYPE_CHECKING

from common.drafters.best_first import Expansion
from common.drafters.phrase_drafter import PhraseDrafter
from common.protocol.views import TreeView

if TYPE_CHECKING:
    from common.drafters.load import DrafterConfig, DrafterFactory


def load(config: "DrafterConfig") -> "DrafterFactory":
    """There are no weights to load."""
    return lambda: OuroborosDrafter(config.expansion)


class OuroborosDrafter(PhraseDrafter):
    kind = "ouroboros"

    def __init__(self, expansion: Expansion = Expansion()) -> None:  # noqa: B008
        super().__init__(expansion)
        self._seen: set[tuple[int, ...]] = set()  # the paths from the root that were looked at
        self._seen_at = 0  # the frontier of that root

    def _follow(self, view: TreeView) -> None:
        super()._follow(view)
        self._learn_drafts(view)

    def _learn_drafts(self, view: TreeView) -> None:
        """What was drafted since; but not what is proposed from here, which would be learnt from its own word."""
        if self._seen_at != len(view.tokens):
            self._seen_at, self._seen = len(view.tokens), set()
        paths, tail = view.paths, view.tokens[-self._longest :]
        for node in view.nodes:
            path, before = paths[node.id], (*tail, *paths[node.parent])
            if path not in self._seen and all(node.token not in pool.after(before) for pool in self._pools):
                self._phrases.add(before, node.token)
        self._seen.update(paths.values())
