"""What can go wrong with an emulated link, as two families. Nothing else may live here.

Every message is one plain sentence that says what to do.
"""


class LinkError(Exception):
    """Anything that link emulation reports on purpose."""


class LinkMisuseError(LinkError):
    """Someone asked for a link that cannot be."""


class LinkFailureError(LinkError):
    """The machine or the network refused what a sound request needs."""
