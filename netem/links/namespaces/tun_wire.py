"""A wire made of the emulator's process with a TUN device in each namespace: starts, queries and ends that process."""

import asyncio
import socket
import subprocess
import sys

from netem.links.errors import LinkFailureError
from netem.links.namespaces import emulator
from netem.links.namespaces.messages import (
    CUT,
    REPORT,
    RESTORE,
    EmulatorReply,
    EmulatorReport,
    EmulatorRequest,
    read_line,
)
from netem.links.namespaces.wire import NamespacePair
from netem.links.profile import LinkProfile

_ANSWER_BYTES = 4096
_PATIENCE_S = 20.0


class TunWire:
    """A wire for packets: TCP sees real packet loss, and packets stay in order."""

    def __init__(self, profile: LinkProfile, congestion: str | None, record: bool) -> None:
        self._request = EmulatorRequest(profile, congestion, record)
        self._asking = asyncio.Lock()

    async def open(self) -> NamespacePair:
        """Raises LinkFailureError where the emulator does not start, or not in time."""
        ours, theirs = socket.socketpair()
        ours.settimeout(_PATIENCE_S)
        with theirs:
            # In a session of its own, so that Ctrl-C ends it only through this process.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", emulator.__name__],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        self._connection = ours
        try:
            return await asyncio.to_thread(self._begin)
        except TimeoutError as late:
            await self.close()
            raise LinkFailureError(
                f"the tun backend's emulator did not start within {_PATIENCE_S:g} s; is the machine busy?"
            ) from late
        except OSError as refusal:
            await self.close()
            raise _failure(str(refusal.strerror)) from refusal
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        self._connection.close()
        try:
            await asyncio.to_thread(self._process.wait, _PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    async def report(self) -> EmulatorReport:
        """Raises LinkFailureError where the emulator does not answer."""
        async with self._asking:
            try:
                return await asyncio.to_thread(self._ask)
            except (OSError, ValueError) as silent:
                raise LinkFailureError("the tun backend's emulator does not answer: make the link again") from silent

    def turn(self, *, cut: bool) -> None:
        """Cuts the wire or restores it."""
        self._connection.sendall(CUT if cut else RESTORE)

    def _begin(self) -> NamespacePair:
        self._connection.sendall(self._request.to_line())
        line, ends, _, _ = socket.recv_fds(self._connection, _ANSWER_BYTES, 2)
        reply = EmulatorReply.from_line(line) if line else EmulatorReply(error="its process ended")
        if reply.error is None:
            near, far = ends
            return NamespacePair(near, far)
        raise _failure(reply.error)

    def _ask(self) -> EmulatorReport:
        self._connection.sendall(REPORT)
        return EmulatorReport.from_line(read_line(self._connection))


def _failure(why: str) -> LinkFailureError:
    return LinkFailureError(f"the tun backend needs root and TUN devices, and failed here ({why})")
