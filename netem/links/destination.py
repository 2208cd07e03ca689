"""Where a link ends: the server that connections across it go to. Knows nothing of links, rates or delays."""

import logging
import os
import socket

from common.address import Address
from netem.links import sockets

_LOGGER = logging.getLogger(__name__)


class Destination:
    def __init__(self, address: Address):
        self._address = address
        self._was_told = False

    async def connect(self) -> socket.socket | None:
        """None where nothing answers there, which is logged once until something does: clients try again and again."""
        try:
            server = await sockets.connect(self._address)
        except OSError as refusal:
            if not self._was_told:
                _LOGGER.warning("cannot reach %s (%s): start the server there", self._address, _cause(refusal))
            self._was_told = True
            return None
        self._was_told = False
        return server


def _cause(refusal: OSError) -> str:
    """In the system's words: asyncio's have the address in them, in Python's."""
    if refusal.errno is None or isinstance(refusal, socket.gaierror):
        return refusal.strerror or str(refusal)
    return os.strerror(refusal.errno)
