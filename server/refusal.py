"""Refusals: why a request is not served now though it may be later, as data for clients, logs and metrics. It may not
know who refuses: sessions, passes or quotas."""

from enum import StrEnum

from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode


class RefusalReason(StrEnum):
    SESSIONS = "sessions"  # the server has as many as it takes
    RUNNING = "running"  # as many answers are being made as it makes at a time
    CACHE = "cache"  # the K/V pool has no room for the prompt
    MEMORY = "memory"  # the device has no memory left to compute a pass, even of this session alone
    DRAINING = "draining"
    QUOTA_SESSIONS = "quota_sessions"
    QUOTA_REQUESTS = "quota_requests"
    QUOTA_TOKENS = "quota_tokens"


_CODES = {
    RefusalReason.SESSIONS: FailureCode.OVERLOADED,
    RefusalReason.RUNNING: FailureCode.OVERLOADED,
    RefusalReason.CACHE: FailureCode.OVERLOADED,
    RefusalReason.MEMORY: FailureCode.MEMORY,
    RefusalReason.DRAINING: FailureCode.DRAINING,
    RefusalReason.QUOTA_SESSIONS: FailureCode.QUOTA,
    RefusalReason.QUOTA_REQUESTS: FailureCode.QUOTA,
    RefusalReason.QUOTA_TOKENS: FailureCode.QUOTA,
}


class AdmissionRefusedError(PeerError):
    """Refuses a request. Its stream ends; a session that the client had stays on lease."""

    def __init__(self, reason: RefusalReason, message: str, retry_after: float = 0.0):
        super().__init__(message, _CODES[reason], retry_after)
        self.reason = reason
