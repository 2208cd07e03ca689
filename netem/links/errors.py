"""The error of emulated links, beside misuse. Nothing else may live here."""

from common.protocol.errors import OutriderError


class LinkFailureError(OutriderError):
    """The machine or the network refused what a correct request needs."""
