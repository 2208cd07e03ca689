"""Why somebody is turned away who may well be served later, as data that clients, logs and metrics are told."""

from enum import StrEnum

from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode


class Reason(StrEnum):
    SESSIONS = "sessions"  # the server has as many as it takes
    RUNNING = "running"  # as many answers are being made as it makes at a time
    CACHE = "cache"  # the K/V pool has no room for the prompt
    DRAINING = "draining"
    QUOTA_SESSIONS = "quota_sessions"
    QUOTA_REQUESTS = "quota_requests"
    QUOTA_TOKENS = "quota_tokens"


_CODES = {
    Reason.SESSIONS: FailureCode.OVERLOADED,
    Reason.RUNNING: FailureCode.OVERLOADED,
    Reason.CACHE: FailureCode.OVERLOADED,
    Reason.DRAINING: FailureCode.DRAINING,
    Reason.QUOTA_SESSIONS: FailureCode.QUOTA,
    Reason.QUOTA_REQUESTS: FailureCode.QUOTA,
    Reason.QUOTA_TOKENS: FailureCode.QUOTA,
}


class TurnedAwayError(PeerError):
    """Ends a stream before anything was made for it; a session that the client had stays on lease."""

    def __init__(self, reason: Reason, message: str, retry_after: float = 0.0):
        super().__init__(message, _CODES[reason], retry_after)
        self.reason = reason
