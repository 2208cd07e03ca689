"""Records one answer under faults: the tokens shown as final, the faults, and how long the answer paused after each.

Times are arguments, in seconds. Knows no links and no conversation.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from client.link.link_state import LinkState
from common.protocol.prefix import common_prefix
from netem.experiments.torture.plan import FaultKind


class FaultRecord:
    """hits: faults in mid-answer by kind. waits: by kind, seconds from the end of a fault to the next final token."""

    def __init__(self) -> None:
        self.hits: Counter[FaultKind] = Counter()
        self.waits: list[tuple[FaultKind, float]] = []
        self._final: list[int] = []
        self._grown = asyncio.Event()
        self._lasting = 0  # faults that have not ended
        self._measured: FaultKind | None = None  # the fault whose wait is measured; None where faults overlap
        self._ended_at_s: float | None = None
        self._is_new_stream = True

    def committed(self, tokens: Sequence[int], now_s: float) -> None:
        """More tokens are shown as final."""
        self._final += tokens
        self._grown.set()
        if tokens and self._measured is not None and self._ended_at_s is not None and self._is_new_stream:
            self.waits.append((self._measured, now_s - self._ended_at_s))
            self._measured = None

    def link_changed(self, state: LinkState) -> None:
        """Tokens after a lost stream come over a new one, so that only those behind OFFLINE end the wait."""
        self._is_new_stream |= state is LinkState.OFFLINE

    def fault_began(self, kind: FaultKind, *, server_is_down: bool = False) -> None:
        """Must be followed by `fault_ended`. No wait is measured for faults that overlap."""
        self.hits[kind] += 1
        self._measured = None if self._lasting or server_is_down else kind
        self._ended_at_s = None
        self._is_new_stream = kind is FaultKind.BLACKHOLE
        self._lasting += 1

    def fault_ended(self, now_s: float) -> None:
        """The link carries again, or the server is back."""
        self._lasting -= 1
        if not self._lasting:
            self._ended_at_s = now_s

    def retracted(self, answer: Sequence[int]) -> int:
        """The number of tokens shown as final that are not in the answer."""
        return len(self._final) - common_prefix(self._final, answer)

    async def until_final(self, tokens: int) -> None:
        """Returns once so many tokens are final."""
        while len(self._final) < tokens:
            self._grown.clear()
            await self._grown.wait()
