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
                why = os.strerror(refusal.errno) if refusal.errno else str(refusal)
                _LOGGER.warning("cannot reach %s (%s): start the server there", self._address, why)
            self._was_told = True
            return None
        self._was_told = False
        return server
