"""What can be wrong with a checkpoint, as one exception family. Nothing else may live here."""

from common.protocol.errors import MisuseError


class CheckpointError(MisuseError):
    """A checkpoint cannot be used as asked. The message is one plain sentence that says what to do."""
