"""One answer under torture: what a person was shown as final, when it was cut, and when it went on.

Times are arguments. Knows no links and no conversation.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from client.link.link_state import LinkState
from common.protocol.prefix import common_prefix
from netem.experiments.torture.plan import Kind


class Trial:
    def __init__(self) -> None:
        self.hits: Counter[Kind] = Counter()  # cuts in mid-answer
        self.waits: list[tuple[Kind, float]] = []  # seconds from a link's return to the next final token
        self._shown: list[int] = []
        self._grown = asyncio.Event()
        self._away = 0  # cuts that have not ended
        self._cut_by: Kind | None = None  # alone
        self._returned_at: float | None = None
        self._is_renewed = True

    def show(self, committed: Sequence[int], now: float) -> None:
        self._shown += committed
        self._grown.set()
        if committed and self._cut_by is not None and self._returned_at is not None and self._is_renewed:
            self.waits.append((self._cut_by, now - self._returned_at))
            self._cut_by = None

    def link_is(self, state: LinkState) -> None:
        # What follows a lost stream comes by a new one.
        self._is_renewed |= state is LinkState.OFFLINE

    def cut(self, kind: Kind, *, server_is_down: bool = False) -> None:
        """Each cut is to be followed by `link_returned`. Of those that overlap no wait is measured."""
        self.hits[kind] += 1
        self._cut_by = None if self._away or server_is_down else kind
        self._returned_at = None
        self._is_renewed = kind is Kind.BLACKHOLE
        self._away += 1

    def link_returned(self, now: float) -> None:
        self._away -= 1
        if not self._away:
            self._returned_at = now

    def retracted(self, answer: Sequence[int]) -> int:
        """Tokens shown as final that are not in the answer."""
        return len(self._shown) - common_prefix(self._shown, answer)

    async def until(self, tokens: int) -> None:
        """Returns once so many are final."""
        while len(self._shown) < tokens:
            self._grown.clear()
            await self._grown.wait()
