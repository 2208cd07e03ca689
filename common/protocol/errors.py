"""The two error families of the protocol: the peer's faults and our own misuse.

Every message is one plain sentence that says what to do. Library exceptions do not appear here; the shells
translate them at the edge.
"""

from common.protocol.messages import FailureCode


class OutriderError(Exception):
    """Anything Outrider reports on purpose; its text is one sentence for a person."""


class PeerError(OutriderError):
    """The other side broke the protocol or asked for what cannot be. Ends that session and harms no other.

    `retry_after` are seconds after which the same may succeed, 0 where there is no telling.
    """

    def __init__(self, message: str, code: FailureCode = FailureCode.PROTOCOL, retry_after: float = 0.0):
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after


class MisuseError(OutriderError):
    """Our own side, or the person using it, asked for something that cannot be done."""
