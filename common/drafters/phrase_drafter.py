"""What `lookahead` and `ouroboros` have in common: a pool of phrases, n-grams that no text holds, beside those of the
text; several tokens are tried behind each node. Beside the target it learns what that would have put behind nodes that
it refused.

It may not know how the pool is filled otherwise.
"""

from common.drafters.best_first import Expansion
from common.drafters.ngram_drafter import NgramDrafter
from common.drafters.ngram_pool import PhrasePool, TextPool
from common.protocol.prefix import common_prefix
from common.protocol.views import Proposal, TargetChoices, TreeView

_LONGEST = 4
_TRIED = 4  # tokens behind one node
_FIRST_SPAN, _SPAN = 48, 16
"""Tokens proposed at a time: below a bare root, and where a tree has begun, to which others may add too."""

_GRAMS = 1 << 14
_TRUST = 0.5
"""Of text that the target has not written; what it is worth is learnt."""


class PhraseDrafter(NgramDrafter):
    """Phrases are forgotten where the sequence is rewritten, so that nothing of its old text is proposed."""

    def __init__(self, expansion: Expansion = Expansion()) -> None:  # noqa: B008
        self._phrases = PhrasePool(_LONGEST, _TRIED, _TRUST, _GRAMS)
        super().__init__(expansion, TextPool(_LONGEST, _TRIED), self._phrases)
        self._learnt: TargetChoices | None = None
        self._chosen: dict[tuple[int, ...], int] = {}  # what the target chose behind each node of the last pass

    def _propose(self, view: TreeView, room: int) -> list[Proposal]:
        span = _SPAN if view.nodes else _FIRST_SPAN
        return self._likeliest(view, min(room, span), self.expansion.least_logp)

    def _follow(self, view: TreeView) -> None:
        super()._follow(view)
        if view.choices is not None and view.choices is not self._learnt:
            self._learnt, self._chosen = view.choices, view.choices.by_path()
            self._learn_refused(view.tokens, view.choices.frontier)

    def _learn_refused(self, tokens: tuple[int, ...], frontier: int) -> None:
        """What the target would have put behind nodes that it refused."""
        before, committed = tokens[max(0, frontier - _LONGEST) : frontier], tokens[frontier:]
        for path, choice in self._chosen.items():
            if common_prefix(path, committed) < len(path):
                self._phrases.add((*before, *path), choice)

    def _rewind(self, length: int) -> None:
        super()._rewind(length)
        self._phrases.clear()
