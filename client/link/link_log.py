"""What the link was like during an answer, for a program to read. It may not know what changes the link's state."""

from typing import Any

from client.link.link_state import LinkState
from common.clock import Clock


class LinkLog:
    """A link listener; times are in seconds since it was made. Failed attempts to reconnect are left out."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self._began = clock()
        self._states: list[tuple[float, LinkState]] = []

    def __call__(self, state: LinkState) -> None:
        before = [each for _, each in self._states[-2:]]
        if state is LinkState.OFFLINE and before == [LinkState.OFFLINE, LinkState.RESUMING]:
            self._states.pop()
        else:
            self._states.append((self._clock() - self._began, state))

    def as_list(self) -> list[dict[str, Any]]:
        return [{"seconds": round(seconds, 3), "state": state.value} for seconds, state in self._states]
