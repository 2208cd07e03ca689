"""Draft-only decoding: an answer that the drafter writes alone and that no target verifies.

Pure. May know views, proposals and the ends of answers. It may not know sessions, streams or messages, so that nothing
of what it holds can be sent to a server."""

from collections.abc import Sequence
from dataclasses import dataclass

from client.drafting.repetition import repeats_itself
from common.protocol.ends import Detokenise, cut
from common.protocol.messages import FinishReason, Settings
from common.protocol.views import Proposal, TreeView

SPENT = "spent"
"""The finish reason if the drafter proposes nothing more, and no server may be asked."""

REPETITION = "repetition"
"""The finish reason if the drafter repeats itself."""


@dataclass(frozen=True, slots=True)
class AnswerBounds:
    """Where answers end: as the target's do."""

    context: int  # tokens of the longest sequence
    end_tokens: frozenset[int]
    detokenise: Detokenise


class DraftOnlyDecoding:
    def __init__(self, safe: Sequence[int], private: Sequence[int], settings: Settings, bounds: AnswerBounds):
        """Continues `safe`, which a target may see, and `private`, which it must not."""
        self.run: tuple[int, ...] = ()
        self.reason: str | None = None
        self._safe, self._private = tuple(safe), tuple(private)
        self._settings = settings
        self._bounds = bounds
        self._room = min(settings.max_new_tokens, bounds.context - len(safe) - len(private))

    def view(self) -> TreeView:
        """The view that the next token is drafted from."""
        unseen = self._private + self.run
        view = TreeView(self._safe + unseen, (), alone=True, provisional=len(unseen), unjudged=True)
        return view.drafted_for(self._settings, len(self._safe) + len(self._private))

    def take(self, proposals: Sequence[Proposal]) -> None:
        """Appends the likeliest of what was drafted from the latest view."""
        fresh = _likeliest(proposals)
        prompt = self._safe + self._private
        kept, reason = cut(
            prompt + self.run,
            len(prompt),
            fresh,
            stop=self._settings.stop,
            room=self._room - len(self.run),
            ends=self._bounds,
        )
        self.run += tuple(fresh[:kept])
        if reason is not None:
            self.reason = reason
        elif not fresh:
            self.reason = SPENT
        elif repeats_itself(self.run):
            self.reason = REPETITION

    def stop(self) -> None:
        self.reason = FinishReason.CANCELLED


def _likeliest(proposals: Sequence[Proposal]) -> list[int]:
    run: list[int] = []
    parent = 0
    while below := [index for index, proposal in enumerate(proposals) if proposal.parent == parent]:
        best = max(below, key=lambda index: proposals[index].logp)
        run.append(proposals[best].token)
        parent = -1 - best
    return run
