"""The error of checkpoints and draft directories. Nothing else may live here."""

from common.protocol.errors import MisuseError


class CheckpointError(MisuseError):
    """A checkpoint cannot be used as asked. The message is one plain sentence that says what to do."""
