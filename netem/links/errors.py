"""What can go wrong with an emulated link beside misuse. Nothing else may live here."""

from common.protocol.errors import OutriderError


class LinkFailureError(OutriderError):
    """The machine or the network refused what a sound request needs."""
