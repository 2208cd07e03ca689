"""The client against a malicious server: its session, drafting loop, link watch and draft state.

Does what `client.conversation` does, without tasks and without a drafter: drafted nodes are random.
"""

from random import Random

from google.protobuf.message import DecodeError

from client.drafting.loop import DraftingLoop
from client.drafting.policies import LOCKSTEP, STREAM
from client.link.link_state import LinkWatch
from common.codec import decode
from common.protocol.client_session import ClientSession, Limits
from common.protocol.errors import PeerError
from common.protocol.messages import Failed, FromClient, FromServer, Pong, Settings, State
from common.protocol.transitions import ClientState
from common.protocol.views import Proposal
from common.rpc import convert
from common.rpc.generated.outrider.v1 import outrider_pb2 as pb
from tests.fuzz.harness import FaultError, check_sentence
from tests.fuzz.mutation import FuzzedFrame, Mutator
from tests.fuzz.server_frames import TOP_LOGPROBS, WANTED, server_frame

VOCAB = 50
_LIMITS = Limits("f", VOCAB, 400, 64)
_TURNS = 4  # of a session, after which another one begins


class ClientHarness:
    def __init__(self, rng: Random):
        self._rng = rng
        self._mutate = Mutator()
        self._now = 0.0
        self._begin()

    def frame(self, rng: Random) -> FuzzedFrame:
        return self._mutate(server_frame(self._session, VOCAB, rng), rng)

    def take(self, data: bytes) -> str:
        self._now += 0.01
        final = list(self._session.tree.tokens)
        try:
            message = convert.message_from_server(pb.ServerFrame.FromString(data))
            outcome = self._hear(message)
        except DecodeError:
            outcome = "undecodable"
        except PeerError as error:
            check_sentence(error)
            outcome = "refused"
        if self._session.tree.tokens[: len(final)] != final:
            raise FaultError("what was final is retracted")
        if len(self._session.tree.tokens) > _LIMITS.context:
            raise FaultError("there are more tokens than the context holds")
        if outcome in ("undecodable", "refused", "ended"):
            self._lose()
        self._act()
        return outcome

    def end(self) -> None:
        """Raises FaultError if anything is still held."""

    def _begin(self) -> None:
        policy = LOCKSTEP if self._rng.random() < 0.1 else STREAM
        self._session = ClientSession("a session of a client", _LIMITS, WANTED)
        self._loop = DraftingLoop(self._session, policy, has_drafter=True, ends=(0,))
        self._watch = LinkWatch(self._rng.random)
        self._watch.retried(self._now)
        self._begin_turn(self._rng.choices(range(VOCAB), k=self._rng.randrange(1, 30)))

    def _begin_turn(self, tokens: list[int]) -> None:
        most = self._rng.choice((0, 1, 8, 40, 600))
        asked = self._rng.choice((None, None, *TOP_LOGPROBS))
        self._send(self._loop.begin_turn(tokens, Settings(most, top_logprobs=asked)))
        self._watch.expect(self._now)

    def _hear(self, message: FromServer) -> str:
        if isinstance(message, Pong):
            self._watch.answered(message.number, self._now)
            return "taken"
        tokens, replies = self._loop.received(message)
        if any(not 0 <= token < VOCAB for token in tokens):
            raise FaultError("a token outside the vocabulary was made final")
        self._send(replies)
        if isinstance(message, State):
            states = decode(message.payload, message.dtype, message.shape)
            if tuple(states.shape) != message.shape or not states.isfinite().all():
                raise FaultError("draft state is not what its frame says")
        if isinstance(message, Failed):
            if not message.message.isprintable() or len(message.message) > convert.LONGEST_SENTENCE + 1:
                raise FaultError(f"a person would be told {message.message[:200]!r}")
            return "ended"
        return "taken"

    def _lose(self) -> None:
        """The stream breaks. A conversation ends then, or (more often) reconnects once."""
        if self._session.state is ClientState.FAILED or self._rng.random() < 0.2:
            self._begin()
            return
        self._session.lost()
        self._watch.broken(self._now)
        if self._session.state is ClientState.LOST:
            self._send(self._loop.reopen())
            self._watch.retried(self._now)

    def _act(self) -> None:
        """What the client does between two frames."""
        drawn, session = self._rng.random(), self._session
        if session.state in (ClientState.FINISHED, ClientState.PARKED):
            if session.turn == _TURNS:
                self._begin()
                return
            kept = session.tree.tokens[: self._rng.randrange(len(session.tree.tokens) + 1)][:350]
            self._begin_turn([*kept, *self._rng.choices(range(VOCAB), k=3)])
        elif drawn < 0.5:
            step = self._loop.begin_step()
            if step is not None:
                places = [0, *(node.id for node in step.view.nodes)]
                count = self._rng.randrange(4)
                proposals = [
                    Proposal(self._rng.choice(places), self._rng.randrange(VOCAB), -self._rng.random())
                    for _ in range(count)
                ]
                self._send(self._loop.drafted(step, proposals))
        elif drawn < 0.51:
            self._send(self._loop.cancel())
        elif drawn < 0.52:
            self._watch.tick(self._now)
            self._watch.probed(self._now)

    def _send(self, messages: list[FromClient]) -> None:
        for message in messages:
            convert.frame_from_client(message)
