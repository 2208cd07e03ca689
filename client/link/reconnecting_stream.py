"""The stream of a session, dialled anew whenever it breaks.

The asyncio shell around `LinkWatch`. It may not know sessions or drafting: its caller decides what is sent on a new
stream.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import random

from client.link.link_state import LinkAction, LinkState, LinkWatch
from client.link.stream import Stream
from common.clock import Clock
from common.protocol.messages import Failed, FromClient, FromServer, Ping, Pong
from common.rpc.errors import HungUpError, LinkError
from common.rpc.traffic import Traffic

Dial = Callable[[], Awaitable[Stream]]
"""Opens a new stream to the server, however long that takes. Raises LinkError if the server refuses."""

LeaveFull = Callable[[float], Awaitable[bool]]
"""The server is full for so many seconds: whether another replica of it was found, which is dialled from now on."""

LinkListener = Callable[[LinkState], None]

_STALL_S = 0.25
"""A timer that comes so late says that this process did not run: what a server sent meanwhile was not read. Without a
bound a laptop that wakes up, or is short of processor time, would give up streams that stand."""


_NO_TRAFFIC = Traffic()


def ignore_link_changes(state: LinkState) -> None:
    """A listener for callers to whom the state of the link does not matter."""


class ReconnectingStream:
    """`stream` may be None for a server that could not be reached; without `dial` a broken stream stays broken.
    `listener` is called with every change of the link's state. `traffic` is that of streams before."""

    def __init__(
        self,
        stream: Stream | None,
        dial: Dial | None = None,
        listener: LinkListener = ignore_link_changes,
        clock: Clock = time.perf_counter,
        uniform: Callable[[], float] = random,
        traffic: Traffic = _NO_TRAFFIC,
    ):
        self._stream = stream
        self._dial = dial
        self._listener = listener
        self._clock = clock
        self._watch = LinkWatch(uniform)
        self._traffic_before = traffic  # of streams that are gone
        self._changed = asyncio.Event()
        self.lost_by = ""
        """Why the latest stream was lost, as a person may read it; empty while none was."""
        self.hung_up_by = ""
        """Why the latest stream was lost, if something is there that is not the server as it was; empty otherwise."""
        self._lost_upload_s = 0.0  # `upload_s` when this answer lost its stream; 0 once there is another
        self._given_up_by = ""
        if stream is None:
            self._watch.broken(clock())
        else:
            self._watch.retried(clock())
        self._reported = self._watch.state

    @property
    def state(self) -> LinkState:
        return self._watch.state

    @property
    def is_good(self) -> bool:
        """Whether what is drafted now is likely to be verified soon."""
        return self._watch.is_good

    @property
    def can_reconnect(self) -> bool:
        return self._dial is not None

    @property
    def reconnects(self) -> int:
        return self._watch.reconnects

    def upload_s(self) -> float:
        """Seconds by which a server's answer may come later for what is being sent to it."""
        self._count_sent()
        return self._watch.upload_s

    def answer_upload_s(self) -> float:
        """As `upload_s`, but it stays what it was while there is no stream: who looks when one begins finds nothing
        yet, for streams count what they send when it leaves."""
        return max(self.upload_s(), self._lost_upload_s)

    @property
    def traffic(self) -> Traffic:
        return self._traffic_before if self._stream is None else self._traffic_before.plus(self._stream.traffic)

    def expect_answer(self) -> None:
        """From now on the server has something to send, so silence means something."""
        self._lost_upload_s = 0.0
        self._watch.expect(self._clock())
        self._changed.set()

    def expect_nothing(self) -> None:
        """The server has nothing more to send."""
        self._watch.rest()

    def retry_now(self) -> None:
        """Tries a lost server at once, because a person asks for it."""
        self._watch.retry_now()
        self._changed.set()

    @property
    def is_held(self) -> bool:
        return self._watch.is_held

    def hold(self) -> None:
        """Disconnects until `release`, because a person asks for it. To be called between two answers."""
        self._watch.hold()
        self.drop()

    def release(self) -> None:
        """Tries the server again, at once."""
        self._watch.release()
        self._changed.set()

    def send(self, message: FromClient) -> None:
        """Never waits. What cannot be sent is dropped; `receive` reports that the stream is lost."""
        if self._stream is not None:
            self._stream.send(message)

    async def receive(self) -> FromServer:
        """The next frame for the session. Raises LinkError if the stream is lost, or was given up, MisuseError if the
        server does not accept the bearer token, or a message is longer than it takes."""
        while True:
            try:
                if self._stream is None:
                    raise LinkError("the server cannot be reached")
                message = await self._stream.receive()
                if message is None:
                    raise LinkError("the server has ended the stream; ask again")
            except LinkError as error:
                self._note(error)
                self._lose(str(error))
                raise
            self.hung_up_by = ""
            self._count_sent()
            if isinstance(message, Pong):
                self._watch.answered(message.number, self._clock())
            if not isinstance(message, Failed):  # which ends the stream: a server that refuses does not count as back
                self._watch.heard(self._clock())
                self._report()
            if not isinstance(message, Pong):
                return message

    def _note(self, error: LinkError) -> None:
        self.hung_up_by = str(error) if isinstance(error, HungUpError) else ""

    async def reconnect(self) -> None:
        """Returns with a new stream, which has not answered yet, however long that takes. Needs a `dial`."""
        assert self._dial is not None
        while True:
            self._changed.clear()
            if self._watch.tick(self._clock()) is not LinkAction.RETRY:
                await self._wait(self._watch.due - self._clock())
                continue
            try:
                self._stream = await self._dial()
            except LinkError as error:
                self._note(error)
                self._watch.broken(self._clock())
                continue
            self._watch.retried(self._clock())
            self._lost_upload_s = 0.0
            self._report()
            return

    async def run_heartbeat(self) -> None:
        """Probes a silent server, and gives up a stream that does not answer. Runs until it is cancelled."""
        while True:
            self._changed.clear()
            if self._stream is None:
                await self._changed.wait()
                continue
            self._count_sent()
            action = self._watch.tick(self._clock())
            if action is LinkAction.PROBE:
                self.send(Ping(self._watch.probed(self._clock())))
                self._report()
            elif action is LinkAction.GIVE_UP:
                self._given_up_by = f"the server was silent for {self._watch.silence_s(self._clock()):.1f} s"
                self._stream.close()
                await self._changed.wait()
            else:
                due = self._watch.due
                await self._wait(due - self._clock())
                if self._clock() - due > _STALL_S:
                    self._watch.stalled(self._clock())

    def drop(self, wait_s: float = 0.0, cause: str = "it was left") -> None:
        """Gives this stream up, for that `cause`. The server is not tried again for `wait_s` seconds."""
        if self._stream is not None:
            self._lose(cause, wait_s)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def _lose(self, cause: str, wait_s: float = 0.0) -> None:
        self.lost_by, self._given_up_by = self._given_up_by or cause, ""
        self._lost_upload_s = self.upload_s()
        self._traffic_before = self.traffic
        self.close()
        self._stream = None
        self._watch.broken(self._clock(), wait_s)
        self._report()

    def _count_sent(self) -> None:
        if self._stream is not None:
            self._watch.sent(self._stream.traffic.up, self._clock())

    async def _wait(self, seconds: float) -> None:
        """Until something changes, for at most so many seconds."""
        # Not `wait_for`, which in Python 3.11 may swallow a cancellation that comes together with the event.
        with suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == math.inf else max(0.0, seconds)):
                await self._changed.wait()

    def _report(self) -> None:
        if self._watch.state is not self._reported:
            self._reported = self._watch.state
            self._listener(self._reported)
        self._changed.set()
