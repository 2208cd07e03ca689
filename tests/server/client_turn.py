"""One client's turn against a server, over any wire."""

import asyncio
from typing import Protocol

from common.protocol.client_session import ClientSession
from common.protocol.errors import PeerError
from common.protocol.messages import Extend, Failed, FromClient, FromServer, Open
from common.protocol.transitions import ClientState
from server.engine import Engine
from server.sessions.outgoing_queue import OutgoingQueue
from tests.server.proposers import Proposer

_DRAFTING_SECONDS = 0.003


class Wire(Protocol):
    def send(self, message: FromClient) -> None: ...

    async def receive(self) -> FromServer | None: ...


class EngineWire:
    """A stream to an engine in the same process."""

    def __init__(self, engine: Engine):
        self._engine = engine
        self.stream = OutgoingQueue()
        self._messages = self.stream.__aiter__()

    def send(self, message: FromClient) -> None:
        self._engine.receive(self.stream, message)

    async def receive(self) -> FromServer | None:
        return await anext(self._messages, None)

    def close(self) -> None:
        self._engine.leave(self.stream)


async def play(session: ClientSession, wire: Wire, opening: Open | Extend, propose: Proposer) -> list[int]:
    """One answer, drafting until its end. Raises PeerError where the server ends the session or the stream."""
    turn = _Turn(session, wire, propose)
    turn.send(opening)
    drafting = asyncio.create_task(turn.draft())
    try:
        await turn.listen()
        # Not cancelled: gRPC ends a call whose write is cancelled, and a next turn needs it.
        await drafting
    finally:
        drafting.cancel()
    return session.answer


class _Turn:
    def __init__(self, session: ClientSession, wire: Wire, propose: Proposer):
        self._session, self._wire, self._propose = session, wire, propose

    def send(self, message: FromClient | None) -> None:
        if message is not None:
            self._wire.send(message)

    async def draft(self) -> None:
        session = self._session
        while session.state in (ClientState.OPENING, ClientState.GENERATING):
            view = session.view()
            proposals = self._propose(view)
            self.send(session.propose(len(view.tokens), proposals) if proposals else session.exhausted())
            await asyncio.sleep(_DRAFTING_SECONDS)

    async def listen(self) -> None:
        session = self._session
        while session.state is not ClientState.FINISHED:
            message = await self._wire.receive()
            if message is None:
                raise PeerError("the stream ended")
            session.receive(message)
            if isinstance(message, Failed):
                raise PeerError(message.message, message.code)
            self.send(session.acknowledge())
            self.send(session.acknowledge_state())
