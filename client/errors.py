"""What can go wrong beside the link and the protocol, each as one plain sentence that says what to do.

Library exceptions are translated into these once, at the edge where they appear.
"""

from common.protocol.errors import OutriderError


class RefusedError(OutriderError):
    """The server will not serve this session, or no longer."""


class BrokenOffError(OutriderError):
    """An answer ended before its end; what was committed of it has been shown."""

    def __init__(self, reason: str):
        super().__init__(f"the answer broke off: {reason}")


class BundleError(OutriderError):
    """A bundle cannot be fetched, kept or used."""


class DemoError(OutriderError):
    """The demo cannot be run."""
