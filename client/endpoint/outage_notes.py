"""Says in the log of `outrider serve` that its server is lost, and that it is back.

Knows states of the link; it may not know conversations, nor where lines go.
"""

import asyncio
from collections.abc import Callable

from client.endpoint.stream_emitter import GRACE_S
from client.link.link_state import LinkState


class OutageNotes:
    """A link listener. A server that is back within the grace time was not lost: a stream that broke while nobody asked
    is noticed at the next answer, on each conversation anew. `name` says what the server is called."""

    def __init__(self, state: LinkState, name: Callable[[], str], say: Callable[[str], None]):
        self._was_announced = state is LinkState.OFFLINE  # who starts without the server says so
        self._name, self._say = name, say
        self._grace: asyncio.TimerHandle | None = None

    def __call__(self, state: LinkState) -> None:
        if state is LinkState.OFFLINE and self._grace is None and not self._was_announced:
            self._grace = asyncio.get_running_loop().call_later(GRACE_S, self._announce)
        elif state is LinkState.ONLINE:
            if self._grace is not None:
                self._grace.cancel()
                self._grace = None
            if self._was_announced:
                self._was_announced = False
                self._say(f"the server at {self._name()} is back")

    def _announce(self) -> None:
        self._grace, self._was_announced = None, True
        self._say(f"the server at {self._name()} is lost")
