"""A server in memory and drafters that are right, wrong or both, for driving a client without a network.

The target is a function from a sequence to its next token; passes take as long as a test says.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from client.stats import Traffic
from common.protocol.client_session import Limits
from common.protocol.messages import FromClient, FromServer, Grow, Open
from common.protocol.server_session import ServerSession
from common.protocol.terms import Terms
from common.protocol.views import Proposal, TreeView
from common.rpc.convert import frame_from_client, frame_from_server
from common.rpc.errors import LinkError

VOCABULARY = 50
END = 0
SESSION = "a session of a test"
LIMITS = Limits(fingerprint="target", vocab_size=VOCABULARY, context=400, max_nodes=64)
TERMS = Terms("target", VOCABULARY, 400, frozenset({END}), lambda tokens: "", max_nodes=64, run_ahead=16)

Target = Callable[[Sequence[int]], int]


def target(tokens: Sequence[int]) -> int:
    """Never ends by itself."""
    return 1 + (sum((index + 7) * token for index, token in enumerate(tokens[-5:])) + len(tokens)) % (VOCABULARY - 1)


def decoded(prompt: Sequence[int], count: int) -> tuple[int, ...]:
    """What the target alone answers."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(target(tokens))
    return tuple(tokens[len(prompt) :])


def up_bytes(message: FromClient) -> int:
    return frame_from_client(message).ByteSize()


def down_bytes(message: FromServer) -> int:
    return frame_from_server(message).ByteSize()


class FakeStream:
    """A stream to a server of its own. `breaks_after` commits it is gone."""

    def __init__(self, pass_seconds: float = 0.001, breaks_after: int | None = None):
        self.sent: list[FromClient] = []
        self.received: list[FromServer] = []
        self.passes = 0
        self._session: ServerSession | None = None
        self._frames: asyncio.Queue[FromServer | LinkError] = asyncio.Queue()
        self._heard = asyncio.Event()
        self._pass_seconds = pass_seconds
        self._breaks_after = breaks_after
        self._server = asyncio.create_task(self._serve())

    @property
    def traffic(self) -> Traffic:
        return Traffic(sum(map(up_bytes, self.sent)), sum(map(down_bytes, self.received)))

    @property
    def grows(self) -> list[Grow]:
        return [message for message in self.sent if isinstance(message, Grow)]

    def send(self, message: FromClient) -> None:
        self.sent.append(message)
        if isinstance(message, Open):
            self._session = ServerSession(message, TERMS, time.monotonic())
            self._deliver(self._session.greeting)
        elif self._session is not None:
            self._deliver(self._session.receive(message, time.monotonic()))
        self._heard.set()

    async def receive(self) -> FromServer:
        frame = await self._frames.get()
        if isinstance(frame, LinkError):
            raise frame
        self.received.append(frame)
        return frame

    def close(self) -> None:
        self._server.cancel()

    def _deliver(self, frames: Sequence[FromServer]) -> None:
        for frame in frames:
            self._frames.put_nowait(frame)

    async def _serve(self) -> None:
        while True:
            session = self._session
            if session is None or session.due() > time.monotonic():
                self._heard.clear()
                try:
                    await asyncio.wait_for(self._heard.wait(), 0.01)
                except TimeoutError:
                    continue
                continue
            work = session.plan(budget=64)
            choices = self._choices(session, work)
            await asyncio.sleep(self._pass_seconds)
            self._deliver(session.complete(work, choices, time.monotonic()).replies)
            self.passes += 1
            if self.passes == self._breaks_after:
                self._frames.put_nowait(LinkError("the server went away in mid-answer"))
                return

    @staticmethod
    def _choices(session: ServerSession, work) -> list[int]:
        if not work.reaches_root:
            return []
        paths = {session.tree.root: tuple(session.tree.tokens)}
        for node in work.nodes:
            paths[node] = (*paths[node.parent], node.token)
        return [target(path) for path in paths.values()]


class ChainDrafter:
    """Extends the likeliest leaf by one token a call, at most `depth` nodes deep; `propose` says by which."""

    kind = "fake"

    def __init__(self, propose: Target, depth: int = 4, seconds: float = 0.0):
        self.views: list[TreeView] = []
        self._propose = propose
        self._depth = depth
        self._seconds = seconds

    def draft(self, view: TreeView) -> Sequence[Proposal]:
        self.views.append(view)
        time.sleep(self._seconds)
        path, parent = list(view.tokens), 0
        children = {node.parent: node for node in view.nodes}
        while (node := children.get(parent)) is not None:
            path.append(node.token)
            parent = node.id
        if len(path) - len(view.tokens) >= self._depth:
            return []
        return [Proposal(parent, self._propose(path), -0.1)]


def wrong(tokens: Sequence[int]) -> int:
    return target(tokens) % (VOCABULARY - 1) + 1


def sometimes(tokens: Sequence[int]) -> int:
    return wrong(tokens) if len(tokens) % 3 == 0 else target(tokens)
