"""The stream of a session, made anew whenever it breaks.

The asyncio shell around `LinkWatch`. It may not know sessions or drafting: what is said on a new stream is its caller's
business.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import random
from typing import Protocol

from client.link.link_state import LinkAction, LinkState, LinkWatch
from client.stats import Clock, Traffic
from common.protocol.errors import MisuseError
from common.protocol.messages import Failed, FromClient, FromServer, Ping, Pong
from common.rpc.errors import LinkError


class Stream(Protocol):
    """A session's stream, whatever carries it."""

    @property
    def traffic(self) -> Traffic: ...

    def send(self, message: FromClient) -> None:
        """Never waits; messages leave in order."""
        ...

    async def receive(self) -> FromServer:
        """The next frame. Raises LinkError where the stream is broken, closed or was ended by the server."""
        ...

    def close(self) -> None: ...


Dial = Callable[[], Awaitable[Stream]]
"""A new stream to the server, however long it takes until one stands. Raises LinkError where the server refuses."""

Told = Callable[[LinkState], None]


def unheard(state: LinkState) -> None:
    """For whom it does not matter how the link is."""


class Lifeline:
    """`stream` may be None for a server that could not be reached; without `dial` a broken stream stays broken. `told`
    hears of every change of the link."""

    def __init__(
        self,
        stream: Stream | None,
        dial: Dial | None = None,
        told: Told = unheard,
        clock: Clock = time.perf_counter,
        chance: Callable[[], float] = random,
    ):
        self._stream = stream
        self._dial = dial
        self._told = told
        self._clock = clock
        self._watch = LinkWatch(chance)
        self._before = Traffic()  # on streams that are gone
        self._stirred = asyncio.Event()
        if stream is None:
            self._watch.broken(clock())
        else:
            self._watch.retried(clock())
        self._known = self._watch.state

    @property
    def state(self) -> LinkState:
        return self._watch.state

    @property
    def is_good(self) -> bool:
        """Whether what is drafted now is likely to be judged soon."""
        return self._watch.is_good

    @property
    def can_renew(self) -> bool:
        return self._dial is not None

    @property
    def reconnects(self) -> int:
        return self._watch.reconnects

    @property
    def traffic(self) -> Traffic:
        return self._before if self._stream is None else self._before.plus(self._stream.traffic)

    def expect(self) -> None:
        """From now on the server has something to say."""
        self._watch.expect(self._clock())
        self._stirred.set()

    def rest(self) -> None:
        """The server has nothing more to say."""
        self._watch.rest()

    def hurry(self) -> None:
        """A person wants a lost server tried at once."""
        self._watch.hurry()
        self._stirred.set()

    @property
    def is_held(self) -> bool:
        return self._watch.is_held

    def hold(self) -> None:
        """A person wants no server until `release`. To be called between two answers."""
        self._watch.hold()
        self.drop()

    def release(self) -> None:
        """The server is tried again, at once."""
        self._watch.release()
        self._stirred.set()

    def send(self, message: FromClient) -> None:
        """What cannot be sent is dropped; whoever sent it will hear that the stream is lost."""
        if self._stream is not None:
            self._stream.send(message)

    async def receive(self) -> FromServer:
        """The next frame for the session. Raises LinkError where the stream is lost, or was given up."""
        while True:
            try:
                if self._stream is None:
                    raise LinkError("the server cannot be reached")
                message = await self._stream.receive()
            except LinkError:
                self._lose()
                raise
            except MisuseError as error:
                # Credentials that were good once are; what failed is a connection that was cut while it was secured.
                if not self._watch.has_been_heard:
                    raise
                self._lose()
                raise LinkError(str(error)) from error
            if isinstance(message, Pong):
                self._watch.answered(message.number, self._clock())
            if not isinstance(message, Failed):  # which ends the stream: a server that refuses is none that is back
                self._watch.heard(self._clock())
                self._tell()
            if not isinstance(message, Pong):
                return message

    async def renew(self) -> None:
        """Returns with a new stream, which has not answered yet, however long that takes. Needs a `dial`."""
        assert self._dial is not None
        while True:
            self._stirred.clear()
            if self._watch.tick(self._clock()) is not LinkAction.RETRY:
                await self._wait(self._watch.due - self._clock())
                continue
            try:
                self._stream = await self._dial()
            except LinkError:
                self._watch.broken(self._clock())
                continue
            self._watch.retried(self._clock())
            self._tell()
            return

    async def keep(self) -> None:
        """Asks for signs of life, and gives up a stream that shows none. Runs until it is cancelled."""
        while True:
            self._stirred.clear()
            if self._stream is None:
                await self._stirred.wait()
                continue
            action = self._watch.tick(self._clock())
            if action is LinkAction.PROBE:
                self.send(Ping(self._watch.probed(self._clock())))
                self._tell()
            elif action is LinkAction.GIVE_UP:
                self._stream.close()
                await self._stirred.wait()
            else:
                await self._wait(self._watch.due - self._clock())

    def drop(self, wait: float = 0.0) -> None:
        """This stream is of no more use. The server is not to be tried for `wait` seconds."""
        if self._stream is not None:
            self._lose(wait)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def _lose(self, wait: float = 0.0) -> None:
        self._before = self.traffic
        self.close()
        self._stream = None
        self._watch.broken(self._clock(), wait)
        self._tell()

    async def _wait(self, seconds: float) -> None:
        """Until something changes, at most so long."""
        # Not `wait_for`, which in Python 3.11 may swallow a cancellation that comes together with the event.
        with suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == math.inf else max(0.0, seconds)):
                await self._stirred.wait()

    def _tell(self) -> None:
        if self._watch.state is not self._known:
            self._known = self._watch.state
            self._told(self._known)
        self._stirred.set()
