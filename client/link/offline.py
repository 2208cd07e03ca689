"""What is done while the server is out of reach, and how long it has been waited for. Pure: times are arguments, in
seconds; `conversation` gives it effect."""

from collections.abc import Callable
from dataclasses import dataclass

from client.link.link_state import LinkState

DEFAULT_LIMIT_TOKENS = 256
DEFAULT_WAIT_S = 10.0

DEFAULT_NOTE = (
    "[The server was out of reach. The small model on this machine has written part of this answer, "
    "and the large one has not checked that part.]"
)
"""What stands below a streamed chat's answer of which the draft model has written some alone."""


@dataclass(frozen=True, slots=True)
class OfflineOptions:
    """At most `limit_tokens` are drafted behind the final tokens; once there is nothing more to draft, the server is
    waited for as long as `wait_s`: seconds in all since it last brought a token, so that a link that comes back for
    moments and brings nothing does not restart the wait; and longer by what is being sent to it, on a slow uplink.
    `accept_unverified` makes the drafted tokens final when the server is back, instead of having them verified."""

    limit_tokens: int = DEFAULT_LIMIT_TOKENS
    wait_s: float = DEFAULT_WAIT_S
    accept_unverified: bool = False


WaitListener = Callable[[float], None]
"""Is called once in an answer, when a wait for the server begins, with the seconds that it may take."""


def ignore_wait(seconds: float) -> None:
    """A listener for callers who show by other means that the server is away."""


class OfflineWait:
    """Seconds for which the server was waited for with nothing to draft, since it last brought a token."""

    def __init__(self, passes: int):
        """`passes` is how many the server has reported, here and later: each of them has brought a token."""
        self._passes = passes
        self._waited_s = self._upload_s = 0.0
        self._was_announced = False

    def begins(self, state: LinkState) -> bool:
        """Whether to announce it now: once, and not while the link is suspect, which mostly lasts for a moment."""
        if self._was_announced or state is LinkState.SUSPECT:
            return False
        self._was_announced = True
        return True

    def left_s(self, wait_s: float, upload_s: float, passes: int) -> float:
        """What is left of so long a wait, where the server's answer may come `upload_s` later for what is sent to it:
        it is longer by the longest such time, which stays where the link has changed since."""
        if passes != self._passes:
            self._waited_s, self._upload_s, self._passes = 0.0, 0.0, passes
        self._upload_s = max(self._upload_s, upload_s)
        return wait_s + self._upload_s - self._waited_s

    def add(self, seconds: float) -> None:
        self._waited_s += seconds
