"""The errors of checkpoints and draft directories. Nothing else may live here."""

from common.protocol.errors import MisuseError, OutriderError


class CheckpointError(MisuseError):
    """A checkpoint cannot be used as asked. The message is one plain sentence that says what to do."""


class HubError(OutriderError):
    """A checkpoint could not be fetched from the hub now, which may go better later: no fault of who asks for it."""
