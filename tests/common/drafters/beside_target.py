"""Rounds beside a target whose next token is a function of the sequence, without any network."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from common.drafters.drafter import Drafter
from common.protocol.messages import GrownNode, Settings
from common.protocol.rules.verify_input import make_verify_input
from common.protocol.tree import TokenTree
from common.protocol.views import TargetChoices, TreeView
from tests.common.protocol.rules.rows import choices_of, decide

NextToken = Callable[[Sequence[int]], int]


class BesideTarget:
    """`tells` whether drafters are told what the target chose, as they are on its side of a link."""

    def __init__(self, drafter: Drafter, following: NextToken, prompt: Sequence[int], tells: bool = True):
        self.tree = TokenTree(prompt)
        self.choices: TargetChoices | None = None
        self.views: list[TreeView] = []
        self._drafter, self._following, self._prompt_length = drafter, following, len(prompt)
        self._tells = tells

    def round(self, levels: int = 3) -> list[int]:
        """Drafts levels and verifies the tree; returns what is committed."""
        settings = Settings(1000)
        for _ in range(levels):
            view = self.tree.view().drafted_for(settings, self._prompt_length)
            self.views.append(replace(view, choices=self.choices if self._tells else None))
            first = self.tree.last_id + 1
            self.tree.grow(
                self.tree.frontier,
                [
                    GrownNode(id_, each.parent_id(first), each.token, each.logp)
                    for id_, each in enumerate(self._drafter.draft(self.views[-1]), first)
                ],
            )
        verify_input = make_verify_input(self.tree, range(1, 1 + len(self.tree)), settings)
        before = list(self.tree.tokens)
        chosen = [self._following([*before, *verify_input.path(row)]) for row in range(len(verify_input.tokens))]
        tokens = decide(verify_input, chosen)
        self.choices = choices_of(verify_input, chosen)
        self.tree.commit(tokens)
        return tokens
