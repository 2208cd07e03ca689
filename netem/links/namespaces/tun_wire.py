"""A wire that is a process of its own with a TUN device in each namespace: starts, asks and ends it. No emulation."""

import asyncio
import socket
import subprocess
import sys

from netem.links.errors import LinkFailureError
from netem.links.namespaces import emulator
from netem.links.namespaces.talk import Opened, Report, Request, read_line
from netem.links.namespaces.wire import Joined
from netem.links.profile import LinkProfile

_ANSWER_BYTES = 4096
_PATIENCE_S = 20.0
_ASK = b"?"


class TunWire:
    """A wire for packets: a real TCP sees real loss, in order."""

    def __init__(self, profile: LinkProfile, congestion: str | None, record: bool) -> None:
        self._request = Request(profile, congestion, record)
        self._asking = asyncio.Lock()

    async def open(self) -> Joined:
        ours, theirs = socket.socketpair()
        ours.settimeout(_PATIENCE_S)
        with theirs:
            # In a session of its own, so that Ctrl-C ends it only through us.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", emulator.__name__],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        self._talk = ours
        try:
            return await asyncio.to_thread(self._begin)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        self._talk.close()
        try:
            await asyncio.to_thread(self._process.wait, _PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    async def report(self) -> Report:
        async with self._asking:
            return await asyncio.to_thread(self._ask)

    def _begin(self) -> Joined:
        self._talk.sendall(self._request.to_line())
        line, ends, _, _ = socket.recv_fds(self._talk, _ANSWER_BYTES, 2)
        opened = Opened.from_line(line) if line else Opened(error="its process ended")
        if opened.error is None:
            near, far = ends
            return Joined(near, far)
        raise LinkFailureError(f"the tun backend needs root and TUN devices, and failed here ({opened.error})")

    def _ask(self) -> Report:
        self._talk.sendall(_ASK)
        return Report.from_line(read_line(self._talk))
