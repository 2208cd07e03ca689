"""The two families of errors: the peer's faults and our own misuse.

Every message is one plain sentence that says what to do. Exceptions of libraries do not appear here: the modules that
call a library translate them.
"""

from common.protocol.messages import FailureCode


class OutriderError(Exception):
    """Any error that Outrider raises on purpose; its text is one sentence for people."""


class PeerError(OutriderError):
    """The peer broke the protocol or asked for something impossible. It ends that session and affects no other.

    `retry_after`: seconds after which the same request may succeed, 0 where that is unknown.
    """

    def __init__(self, message: str, code: FailureCode = FailureCode.PROTOCOL, retry_after: float = 0.0):
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after


class MisuseError(OutriderError):
    """Our own side, or its user, asked for something that cannot be done."""
