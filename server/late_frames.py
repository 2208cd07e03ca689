"""Frames that can change nothing: about an answer that is over, and pings. What is on its way when an answer ends is
free; what comes beyond is paid for, and who does not stop is ended. Pure: time is an argument, in seconds.

It may not know streams or passes.
"""

import math

from common.protocol.errors import PeerError
from common.protocol.messages import Ack, Cancel, FromClient, Grow, Ping, StateAck
from common.protocol.server_session import ServerSession
from common.protocol.transitions import ServerState

_FREE = 4096
"""Units that may be on their way: every node of a full tree in a Grow of its own, or minutes of pings."""

_MOST = 4 * _FREE
_FADING_PER_S = 1024
_UNITS_OF_FRAME = 8  # times what a node takes to read


def comes_late(session: ServerSession, message: FromClient) -> bool:
    is_over = session.state is ServerState.FINISHED
    if isinstance(message, Grow | Ack | Cancel):
        return is_over or message.turn < session.turn
    return isinstance(message, Ping) or (is_over and isinstance(message, StateAck))


class LateFrames:
    def __init__(self) -> None:
        self._units = 0.0
        self._since = -math.inf

    def take(self, nodes: int, now: float) -> int:
        """Counts a frame with so many nodes; returns what is to be paid for it, in tokens. Raises PeerError where too
        many have come."""
        units = _UNITS_OF_FRAME + nodes
        self._units = max(0.0, self._units - (now - self._since) * _FADING_PER_S) + units
        self._since = now
        if self._units > _MOST:
            raise PeerError("the client goes on about an answer that is over")
        return 1 + nodes if self._units > _FREE else 0
