"""A server in memory and drafters that are right, wrong or both, for driving a client without a network.

The target is a function from a sequence to its next token; passes take as long as a test says. Draft state is a few
numbers that depend on every token up to their position.
"""

import asyncio
import zlib
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from common.codec import decode, encode
from common.drafters.best_first import Expansion
from common.protocol.client_session import Limits
from common.protocol.draft_state import StateKind
from common.protocol.errors import OutriderError
from common.protocol.messages import FromClient, FromServer, Grow, Open, State, StateRequest
from common.protocol.prefix import common_prefix
from common.protocol.rules.exact import walk
from common.protocol.rules.verify_input import VerifyInput
from common.protocol.server_session import ServerSession
from common.protocol.terms import Terms
from common.protocol.views import Proposal, TreeView
from common.rpc.convert import frame_from_client, frame_from_server
from common.rpc.errors import LinkError
from common.rpc.traffic import Traffic

VOCABULARY = 50
END = 0
SESSION = "a session of a test"
LIMITS = Limits(fingerprint="target", vocab_size=VOCABULARY, context=400, max_nodes=64)
REQUEST = StateRequest("fake", dtype="float16")
WIDTH = 8
TERMS = Terms(
    "target",
    VOCABULARY,
    400,
    frozenset({END}),
    lambda tokens: "",
    max_nodes=64,
    run_ahead=16,
    state_kinds=lambda request: [StateKind("lsa", (WIDTH,))],
)

Target = Callable[[Sequence[int]], int]


def target(tokens: Sequence[int]) -> int:
    """A target that never ends an answer."""
    return 1 + (sum((index + 7) * token for index, token in enumerate(tokens[-5:])) + len(tokens)) % (VOCABULARY - 1)


def decoded(prompt: Sequence[int], count: int) -> tuple[int, ...]:
    """The target's own answer."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(target(tokens))
    return tuple(tokens[len(prompt) :])


def state_of(tokens: Sequence[int]) -> list[float]:
    """The draft state of the last of `tokens`."""
    return [float(zlib.crc32(bytes(tokens), index) % 1000) for index in range(WIDTH)]


def up_bytes(message: FromClient) -> int:
    return frame_from_client(message).ByteSize()


def down_bytes(message: FromServer) -> int:
    return frame_from_server(message).ByteSize()


class FakeStream:
    """A stream to a server of its own. It breaks after `breaks_after` commits; the draft state of a `corrupt` server
    cannot be decoded."""

    def __init__(self, pass_seconds: float = 0.001, breaks_after: int | None = None, corrupt: bool = False):
        self._corrupt = corrupt
        self.sent: list[FromClient] = []
        self.received: list[FromServer] = []
        self.traffic = Traffic()
        self.passes = 0
        self._session: ServerSession | None = None
        self._frames: asyncio.Queue[FromServer | OutriderError] = asyncio.Queue()
        self._heard = asyncio.Event()
        self._pass_seconds = pass_seconds
        self._breaks_after = breaks_after
        self._server = asyncio.create_task(self._serve())

    @property
    def grows(self) -> list[Grow]:
        return [message for message in self.sent if isinstance(message, Grow)]

    def send(self, message: FromClient) -> None:
        self.sent.append(message)
        self.traffic = self.traffic.plus(Traffic(up=up_bytes(message)))
        self._take(message)
        self._heard.set()

    def _take(self, message: FromClient) -> None:
        """What the server does with it."""
        if isinstance(message, Open):
            self._session = ServerSession(message, TERMS, asyncio.get_running_loop().time())
            self._deliver(self._session.opening_replies())
        elif self._session is not None:
            self._deliver(self._session.receive(message, asyncio.get_running_loop().time()))

    async def receive(self) -> FromServer:
        frame = await self._frames.get()
        if isinstance(frame, OutriderError):
            raise frame
        self.received.append(frame)
        size = down_bytes(frame)
        state = {frame.kind: size} if isinstance(frame, State) else {}
        self.traffic = self.traffic.plus(Traffic(down=size, state=state))
        return frame

    def close(self) -> None:
        self._server.cancel()

    def _deliver(self, frames: Sequence[FromServer]) -> None:
        for frame in frames:
            self._frames.put_nowait(frame)

    async def _serve(self) -> None:
        while True:
            session = self._session
            if session is None or session.due() > asyncio.get_running_loop().time():
                self._heard.clear()
                try:
                    await asyncio.wait_for(self._heard.wait(), 0.01)
                except TimeoutError:
                    continue
                continue
            scheduled = session.plan(budget=64)
            tokens = (
                []
                if scheduled.verify_input is None
                else walk(scheduled.verify_input, _TargetRows(session, scheduled.verify_input))
            )
            await asyncio.sleep(self._pass_seconds)
            self._deliver(session.complete(scheduled, tokens, asyncio.get_running_loop().time()).replies)
            self._feed(session)
            self.passes += 1
            if self.passes == self._breaks_after:
                self._frames.put_nowait(LinkError("the server went away in mid-answer"))
                return

    def _feed(self, session: ServerSession) -> None:
        while (span := session.next_span()) is not None:
            ends = range(span.start + 1, span.start + span.count + 1)
            states = torch.tensor([state_of(session.tree.tokens[:end]) for end in ends])
            payload = b"nonsense" if self._corrupt else encode(states, REQUEST.dtype)
            frame = session.state_frame(span, payload, asyncio.get_running_loop().time())
            assert frame is not None
            self._deliver([frame])


class _TargetRows:
    """The target's choice at each wanted row, without sampling."""

    def __init__(self, session: ServerSession, verify_input: VerifyInput):
        self._committed = tuple(session.tree.tokens)
        self._verify_input = verify_input

    def choice(self, row: int) -> int:
        return target((*self._committed, *self._verify_input.path(row)))

    def probabilities(self, row: int) -> NDArray[np.float64]:
        raise NotImplementedError("these tests ask by rules that need the target's choices alone")


class ChainDrafter:
    """Extends the likeliest leaf by one token per call, to a depth of at most `depth`; `propose` chooses the token."""

    kind = "fake"
    state: StateRequest | None = None
    expansion = Expansion()

    def __init__(self, propose: Target, depth: int = 4):
        self.views: list[TreeView] = []
        self._propose = propose
        self._depth = depth

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        self.views.append(view)
        path, parent = list(view.tokens), 0
        children = {node.parent: node for node in view.nodes}
        while (node := children.get(parent)) is not None:
            path.append(node.token)
            parent = node.id
        if len(path) - len(view.tokens) >= self._depth:
            return []
        return [Proposal(parent, self._propose(path), -0.1)]


class StatefulDrafter(ChainDrafter):
    """Keeps the draft state of the positions of its view, as drafters that need it do."""

    state = REQUEST

    def __init__(self, propose: Target, depth: int = 4):
        super().__init__(propose, depth)
        self.tokens: tuple[int, ...] = ()
        self.held: dict[int, list[float]] = {}

    def draft(self, view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
        shared = common_prefix(self.tokens, view.tokens)
        self.held = {position: state for position, state in self.held.items() if position < shared}
        self.tokens = view.tokens
        for state in states:
            rows = decode(state.payload, state.dtype, state.shape)[: state.count]
            self.held.update(enumerate(rows.tolist(), state.start))
        return super().draft(view)

    @property
    def mistaken(self) -> list[int]:
        """Positions whose state does not belong to the tokens that were drafted from."""
        return [position for position, state in self.held.items() if state != state_of(self.tokens[: position + 1])]


def wrong(tokens: Sequence[int]) -> int:
    return target(tokens) % (VOCABULARY - 1) + 1


def sometimes(tokens: Sequence[int]) -> int:
    return wrong(tokens) if len(tokens) % 3 == 0 else target(tokens)
