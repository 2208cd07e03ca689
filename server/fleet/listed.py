"""A fleet without a store: its replicas are those that a file lists, which whoever starts them keeps up to date.

Nothing is counted together: each replica enforces whole quotas. It may not know who writes the file.
"""

import asyncio
import logging
import os
from pathlib import Path

from common.address import Address, parse_destination
from common.protocol.errors import MisuseError
from common.rpc.description_checks import MOST_REPLICAS
from server.fleet.members import drawn

INTERVAL_S = 0.5
"""From one look at the file to the next."""

_log = logging.getLogger(__name__)


class ListedFleet:
    """While the file cannot be read, clients are told what it said before. Of more than they take they are told some,
    which each replica draws by a key of its own, so that its list changes only where the file does."""

    def __init__(self, file: Path):
        """Raises MisuseError for a file that does not list addresses."""
        self._file = file
        self._key = os.urandom(16).hex()
        self._is_read = True
        try:
            self.addresses = self._read()
        except (OSError, ValueError, MisuseError) as error:
            raise MisuseError(
                f"--fleet-list names {file}, which cannot be read as a list ({_why(error)}); write HOST:PORT of each "
                "replica into a line of its own"
            ) from error

    async def join(self) -> None:
        """As `Fleet`; nobody has to be told."""

    async def run(self) -> None:
        """Reads the file again and again until it is cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            try:
                self.addresses = self._read()
                self._is_read = True
            except (OSError, ValueError, MisuseError) as error:
                if self._is_read:
                    said = "%s cannot be read (%s); clients are told what it listed before"
                    _log.warning(said, self._file, _why(error))
                self._is_read = False

    async def drain(self) -> None:
        """As `Fleet`; whoever writes the file leaves this replica out."""

    async def leave(self) -> None:
        """As `Fleet`; nobody has to be told."""

    def _read(self) -> tuple[Address, ...]:
        lines = self._file.read_text(encoding="utf-8").split()
        listed = dict.fromkeys(parse_destination(line) for line in lines)
        chosen = set(drawn(listed, self._key, MOST_REPLICAS))
        return tuple(each for each in listed if each in chosen)


def _why(error: Exception) -> str:
    """In words: an OSError's own repeat the file's name behind a number."""
    return str(error.strerror if isinstance(error, OSError) and error.strerror else error)
