"""The messages of earlier chats, in this user's state directory and readable by nobody else.

Knows what must not be kept, and no conversation.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import FileHistory

from client.private.spans import has_marks

_OWNER_ALONE = 0o600


def history_file() -> Path:
    import platformdirs

    return Path(platformdirs.user_state_dir("outrider")) / "chat_history"


class KeptHistory(FileHistory):
    """Keeps what is neither marked as private nor typed while `private` is set. A file that cannot be used is done
    without."""

    def __init__(self, file: Path):
        self.private = False
        self._file = file
        super().__init__(str(file))

    def load_history_strings(self) -> Iterable[str]:
        try:
            return list(super().load_history_strings())
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        if self.private or has_marks(string):
            return
        with suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._file, os.O_WRONLY | os.O_CREAT, _OWNER_ALONE))
            self._file.chmod(_OWNER_ALONE)
            super().store_string(string)
