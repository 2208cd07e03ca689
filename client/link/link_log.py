"""What became of the link during an answer, for a program to read. The clock is injected."""

from typing import Any

from client.link.link_state import LinkState
from client.stats import Clock


class LinkLog:
    """Call it with every new state; times are in seconds since it was made. Of tries that failed nothing is kept."""

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
