"""What of an answer may be said where nothing can be unsaid: committed text, and once the link is gone for good the
draft's own.

Knows tokens, text and the state of the link. It may not know HTTP, nor who listens.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from client.endpoint.openai_responses import Piece
from client.link.link_state import LinkState
from client.stops import TextBeforeStop
from client.text import IncrementalText

if TYPE_CHECKING:
    from common.models.tokenizer import Tokenizer

GRACE_SECONDS = 1.0
"""For how long a link may be gone before somebody is told: a server that restarts is back by then."""

Say = Callable[[Piece], None]

Keep = Callable[[int], Sequence[int]]
"""Makes so many provisional tokens final while the link is lost, and returns those that it could."""


class Teller:
    """Call it as a conversation's watch. `gone` is called once nobody has answered for the grace; what the draft goes
    on with is said from then on, as far as `keep` allows. `over` is called when a stop string came in what the draft
    wrote."""

    def __init__(
        self,
        tokenizer: "Tokenizer",
        stops: Sequence[str],
        say: Say,
        keep: Keep,
        gone: Callable[[], None],
        over: Callable[[], None],
    ):
        self.text = ""
        self.alone = 0  # tokens said that nobody has judged
        self._decoded = IncrementalText(tokenizer)
        self._before_stop = TextBeforeStop(stops)
        self._say, self._keep, self._gone, self._over = say, keep, gone, over
        self._provisional: tuple[int, ...] = ()
        self._is_gone = False
        self._grace: asyncio.TimerHandle | None = None

    @property
    def stopped(self) -> bool:
        """Whether a stop string came."""
        return self._before_stop.stopped

    def __call__(self, committed: Sequence[int], provisional: Sequence[int]) -> None:
        self._provisional = tuple(provisional)
        self._tell(committed, alone=False)
        self._tell_alone()

    def link_changed(self, state: LinkState) -> None:
        if state is LinkState.ONLINE:
            self._is_gone = False
            self._end_grace()
        elif state is LinkState.OFFLINE and self._grace is None:
            self._grace = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._give_up)

    def unjudged(self, tokens: Sequence[int]) -> None:
        """Tokens that nobody ever will judge, behind all that were said."""
        self.alone += len(tokens)
        self._tell(tokens, alone=True)

    def rest(self) -> None:
        """The link is of no interest any more."""
        self._end_grace()

    def end(self) -> None:
        """No more will come."""
        rest = self._before_stop.append(self._decoded.flush()) + self._before_stop.flush()
        self._utter(rest, alone=self.alone > 0)

    def _give_up(self) -> None:
        self._is_gone = True
        self._gone()
        self._tell_alone()

    def _end_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def _tell_alone(self) -> None:
        if not (self._is_gone and self._provisional):
            return
        kept = self._keep(len(self._provisional))
        self._provisional = self._provisional[len(kept) :]
        self.unjudged(kept)
        if self.stopped:
            self._over()

    def _tell(self, tokens: Sequence[int], *, alone: bool) -> None:
        self._utter(self._before_stop.append(self._decoded.commit(tokens)), alone=alone)

    def _utter(self, text: str, *, alone: bool) -> None:
        if text:
            self.text += text
            self._say(Piece(text, alone))
