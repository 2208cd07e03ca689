"""Errors of the client beside those of the link and the protocol, each one plain sentence that says what to do.

Library exceptions are translated into these once, at the edge where they appear.
"""

from common.protocol.errors import OutriderError


class ServerRefusedError(OutriderError):
    """The server will not serve this session, or no longer. `retry_after` are seconds after which it may, 0 if it
    did not say; `over_quota` if that is up to how much its client has asked, `is_invalid` if it never will."""

    def __init__(self, message: str, retry_after: float = 0.0, *, over_quota: bool = False, is_invalid: bool = False):
        super().__init__(message)
        self.over_quota = over_quota
        self.is_invalid = is_invalid
        self.retry_after = retry_after


class BrokenOffError(OutriderError):
    """An answer ended before its end; what was committed of it has been shown."""

    def __init__(self, reason: str):
        super().__init__(f"the answer broke off: {reason}")


class TooLongError(OutriderError):
    """A conversation that the target cannot hold, lengths in tokens; nothing of the question was sent."""

    def __init__(self, tokens: int, context: int):
        super().__init__(
            f"with that the conversation has {tokens} tokens, but the target holds {context}; ask less, or start anew"
        )


class BundleError(OutriderError):
    """A bundle cannot be fetched, kept or used."""


class DemoError(OutriderError):
    """The demo cannot be run."""
