"""Late frames change nothing: frames about an answer that is over, repeats, pings, and turns that ask for nothing or
are taken back before their first pass. Frames that were in flight when an answer ended are free; more of them are
charged to the client's quota, and far too many end the session. Pure: time is an argument, in seconds.

It may not know streams or passes.
"""

import math

from common.protocol.errors import PeerError
from common.protocol.messages import Ack, Cancel, Extend, FromClient, Grow, Ping, StateAck
from common.protocol.server_session import ServerSession
from common.protocol.transitions import ServerState

_FREE = 4096
"""Units that may be in flight: every node of a full tree in a Grow of its own, or minutes of pings."""

_MAX_UNITS = 4 * _FREE
_FADING_PER_S = 1024
_UNITS_OF_FRAME = 8  # a frame takes as long to read as this many nodes
_TOKENS_OF_UNIT = 4  # tokens of a prompt that are read as fast as one node
_KEPT_TOKENS_OF_UNIT = 64  # tokens that a turn keeps, which are looked at once more


def comes_late(session: ServerSession, message: FromClient, *, awaits_first_pass: bool) -> bool:
    """`awaits_first_pass`: no pass has worked on the session's turn yet."""
    is_over = session.state is ServerState.FINISHED
    if isinstance(message, Extend):
        return message.turn <= session.turn or _asks_for_nothing(session, message)
    if isinstance(message, StateAck):
        return is_over or (session.feed is not None and message.frames <= session.feed.arrived)
    if isinstance(message, Grow | Ack | Cancel) and (is_over or message.turn < session.turn):
        return True
    if isinstance(message, Cancel):
        return awaits_first_pass
    if isinstance(message, Ack):
        return message.frontier <= session.acked
    if isinstance(message, Grow):
        if not message.nodes:
            return message.frontier <= session.exhausted_at
        return all(node.id <= session.tree.last_id for node in message.nodes)
    return isinstance(message, Ping)


def reading_units(session: ServerSession, message: FromClient) -> int:
    """What a frame takes to read beside the frame itself, in units of one node."""
    if isinstance(message, Extend):
        kept = message.keep if message.turn > session.turn else 0
        return len(message.tokens) // _TOKENS_OF_UNIT + kept // _KEPT_TOKENS_OF_UNIT
    if isinstance(message, Cancel) and message.turn == session.turn:
        return session.tree.frontier // _KEPT_TOKENS_OF_UNIT
    return len(message.nodes) if isinstance(message, Grow) else 0


def _asks_for_nothing(session: ServerSession, extend: Extend) -> bool:
    """Neither for tokens nor for draft state that is not here already."""
    has_state = session.feed is None or (not extend.tokens and session.feed.has_delivered(extend.keep))
    return extend.settings.max_new_tokens == 0 and has_state


class LateFrames:
    def __init__(self) -> None:
        self._units = 0.0
        self._since = -math.inf

    def take(self, nodes: int, now: float) -> int:
        """Counts a late frame of `nodes` units; returns its charge in tokens. Raises PeerError where too many have
        come."""
        units = _UNITS_OF_FRAME + nodes
        self._units = max(0.0, self._units - (now - self._since) * _FADING_PER_S) + units
        self._since = now
        if self._units > _MAX_UNITS:
            raise PeerError("too many stale or repeated frames")
        return 1 + nodes if self._units > _FREE else 0
