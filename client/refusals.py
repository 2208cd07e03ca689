"""What a conversation makes of a server's failures: which another replica may not have, which may be asked again, and
what a person is told of several.

Pure decisions: it may not know links, tasks or clocks.
"""

from client.errors import ServerRefusedError
from common.protocol.messages import Failed, FailureCode

_RETRYABLE = (FailureCode.OVERLOADED, FailureCode.MEMORY, FailureCode.QUOTA, FailureCode.DRAINING)
"""Failures of a server, not of a session: it, or another server, may well continue the session later."""

_FULL = (FailureCode.OVERLOADED, FailureCode.MEMORY, FailureCode.DRAINING)
"""Failures of one replica that another may not have, unlike a quota."""


class Refusals:
    def __init__(self) -> None:
        self._of_full_replicas: list[Failed] = []  # to the present answer
        self._was_served = False
        self._has_moved_on = False  # from a draining server to whatever has taken over its address

    def begin_answer(self) -> None:
        self._of_full_replicas.clear()

    def served(self) -> None:
        """Some server has opened the session."""
        self._was_served = True

    def is_of_one_replica(self, failed: Failed) -> bool:
        """Whether another replica may have room; remembers what was said."""
        if failed.code not in _FULL:
            return False
        self._of_full_replicas.append(failed)
        return True

    def may_ask_again(self, failed: Failed, has_begun: bool) -> bool:
        """Whether the session may be asked for once more, later or elsewhere; `has_begun` if an answer is under way.

        A client that has not begun is better told that there is no room than made to wait for it. It asks once more if
        the server drains, because another may have taken over the address.
        """
        can_retry = failed.code in _RETRYABLE and has_begun
        if failed.code is FailureCode.DRAINING:
            can_retry |= self._was_served or not self._has_moved_on
            self._has_moved_on = True
        return can_retry

    def error_for(self, failed: Failed) -> ServerRefusedError:
        """What to raise of the latest failure: of what full replicas said, that which helps a person most, one that
        says when to come back, and how soon, before one that does not know, and one that stays before one that goes."""
        most_helpful = failed
        if failed.code in _FULL:
            most_helpful = min(
                self._of_full_replicas,
                key=lambda each: (each.code is FailureCode.DRAINING, not each.retry_after, each.retry_after),
            )
        return ServerRefusedError(
            most_helpful.message,
            most_helpful.retry_after,
            over_quota=most_helpful.code is FailureCode.QUOTA,
            is_invalid=most_helpful.code is FailureCode.INVALID,
        )
