"""The server's sessions with malicious clients, and with honest ones beside them that must not be affected.

The real `Sessions` with a target that remembers what each slot holds: a slot that is lost, shared or reused too early
changes the answers of honest clients.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from common.protocol.draft_state import StateKind
from common.protocol.errors import PeerError
from common.protocol.idle import IDLE_POLICIES
from common.protocol.messages import (
    Commit,
    Failed,
    FailureCode,
    Finished,
    FromClient,
    FromServer,
    Open,
    Opened,
    Settings,
    State,
    StateRequest,
)
from common.rpc import convert
from server.passes.scheduler import Cost
from server.sessions.sessions import Sessions
from tests.fuzz.client_frames import ClientView, client_frame, opening
from tests.fuzz.harness import FaultError, check_sentence
from tests.fuzz.mutation import FuzzedFrame, Mutator
from tests.server.clients_of_sessions import SERVING_LIMITS, TERMS, Client, prompt_of
from tests.server.fake_target import STATE, STATE_KINDS, VOCAB, FakeTarget, decode
from tests.server.helpers import Helpers, one_level
from tests.server.proposers import guessing, knowing, nothing

_ATTACKERS = 4
_HONEST = 3
_CAPACITY = 6000
_LEASE_SECONDS = 5.0
_FRAMES_BETWEEN_PASSES = 8
_ANSWER = Settings(max_new_tokens=30)
_PASSES_AT_MOST = 3000
_COSTS: tuple[Cost, ...] = (
    lambda tokens: 0.0,
    lambda tokens: 0.03,
    lambda tokens: 0.001 * tokens,
    lambda tokens: 0.01 + 0.002 * tokens,
    lambda tokens: 0.02 * math.ceil(tokens / 16),
)
"""Seconds of a pass over so many tokens: where wider passes take longer, sessions weigh what widens them."""


def _kinds(request: StateRequest) -> Sequence[StateKind]:
    if (request.draft, request.layers) != (STATE.draft, STATE.layers):
        raise PeerError("this server has no such draft", FailureCode.INVALID)
    return STATE_KINDS


class _Attacker:
    """A listener, and what the client on its stream has learnt."""

    client = ""

    def __init__(self, view: ClientView, broken: list[str]):
        self.view = view
        self.asked = ""  # the session that it named in its last Open
        self.ended = False
        self._broken = broken

    def put(self, message: FromServer) -> None:
        match message:
            case Commit():
                self.view.frontier = message.start + len(message.tokens)
                self.view.finished = False
            case Finished():
                self.view.finished, self.view.turn = True, message.turn
                self.view.frontier = message.frontier
            case State():
                self.view.states += 1
            case Opened() if message.session != self.asked:
                self._broken.append("a stream was told of another's session")
            case Failed(code=FailureCode.INTERNAL):
                self._broken.append(f"the server failed by itself: {message.message}")

    def end(self) -> None:
        self.ended = True


class _ImmediateClient(Client):
    """A client whose messages arrive at once."""

    def __init__(self, sessions: Sessions, name: str, wanted: StateRequest | None, clock: Callable[[], float]):
        super().__init__(sessions, name, wanted)
        self._clock = clock

    def say(self, message: FromClient | None, now: float = 0.0) -> None:
        super().say(message, self._clock())


class _Honest:
    def __init__(self, sessions: Sessions, index: int, rng: Random, clock: Callable[[], float]):
        self.prompt = prompt_of(index, rng.randrange(1, 20))
        self.truth = decode(self.prompt, _ANSWER.max_new_tokens)
        idle = rng.choice(("", *IDLE_POLICIES))
        whole = [*self.prompt, *self.truth]
        self._propose = (nothing, guessing(VOCAB, index), knowing(whole, 0.8, VOCAB, index))[index % 3]
        self.client = _ImmediateClient(sessions, f"honest {index}", STATE if index % 2 else None, clock)
        self.client.open(self.prompt, replace(_ANSWER, idle=idle))

    def go_on(self) -> bool:
        """Whether its answer is complete."""
        self.client.hear()
        session = self.client.session
        if not self.client.done:
            self.client.draft(self._propose)
        if not self.client.done:
            # `lockstep` expects an empty Grow where nothing is proposed.
            self.client.say(session.exhausted())
        return self.client.done

    def check(self) -> None:
        if self.client.failed is not None:
            raise FaultError(f"an honest session failed: {self.client.failed.message}")
        if self.client.session.answer != self.truth:
            raise FaultError(f"an honest session got {self.client.session.answer} and not {self.truth}")


class ServerHarness:
    def __init__(self, rng: Random):
        terms = replace(TERMS, idle=rng.choice(list(IDLE_POLICIES)), server_drafts=True, state_kinds=_kinds)
        self._sessions = Sessions(terms, replace(SERVING_LIMITS, lease_seconds=_LEASE_SECONDS), _CAPACITY)
        self._fake_target = FakeTarget()
        self._helpers = Helpers(guessing(VOCAB))
        self._rng = rng
        self._cost = rng.choice(_COSTS)
        self._now = 0.0
        self._frames = 0
        self._broken: list[str] = []
        self._names = [f"an attacker's session {index}" for index in range(3 * _ATTACKERS)]
        self._honest = [self._new_honest(index) for index in range(_HONEST)]
        self._attackers = [self._new_attacker() for _ in range(_ATTACKERS)]
        self._turn = 0
        self.answers = 0  # complete and correct answers of honest clients
        self._mutate = Mutator()

    def frame(self, rng: Random) -> FuzzedFrame:
        return self._mutate(client_frame(self._attackers[self._turn].view, rng), rng)

    def take(self, data: bytes) -> str:
        attacker = self._attackers[self._turn]
        outcome = self._receive(attacker, data)
        if self._rng.random() < 0.02:
            self._sessions.half_close(attacker, self._now)
        if attacker.ended or self._rng.random() < 0.02:
            self._sessions.leave(attacker, self._now)
            self._attackers[self._turn] = self._new_attacker()
        self._turn = self._rng.randrange(_ATTACKERS)
        self._frames += 1
        if not self._frames % _FRAMES_BETWEEN_PASSES:
            self._go_on()
        self._check()
        return outcome

    def end(self) -> None:
        """All honest answers are finished, and nothing of any session is still held."""
        for attacker in self._attackers:
            self._sessions.leave(attacker, self._now)
        for _ in range(_PASSES_AT_MOST):
            if not self._honest:
                break
            self._go_on(renew=False)
        else:
            raise FaultError("an honest session stands still")
        self._check()
        self._now += _LEASE_SECONDS
        self._sessions.plan(self._now)
        left = (len(self._sessions), self._sessions.away, self._sessions.held_slots)
        if left != (0, 0, 0):
            raise FaultError(f"sessions, leases and slots are left: {left}")

    def _receive(self, attacker: _Attacker, data: bytes) -> str:
        """Does what the servicer and the engine do."""
        try:
            message = convert.message_from_client(data)
            if isinstance(message, Open):
                attacker.asked = message.session
            self._sessions.receive(attacker, message, self._now)
        except PeerError as error:
            check_sentence(error)
            self._sessions.fail(attacker, error)
            return f"refused: {error.code.value}"
        return "taken"

    def _new_attacker(self) -> _Attacker:
        """Usually in a running session, sometimes in one that another stream of this attacker had."""
        name = self._rng.choice(self._names)
        attacker = _Attacker(ClientView(name, TERMS.fingerprint, VOCAB, TERMS.context, STATE.draft), self._broken)
        if self._rng.random() < 0.85:
            frame = opening(attacker.view, self._rng)
            self._receive(attacker, frame.SerializeToString())
        return attacker

    def _new_honest(self, index: int) -> _Honest:
        return _Honest(self._sessions, index, self._rng, lambda: self._now)

    def _go_on(self, renew: bool = True) -> None:
        self._now += self._rng.choice((0.001, 0.01, 0.1, 0.5))
        for honest in [each for each in self._honest if each.go_on()]:
            honest.check()
            self._sessions.leave(honest.client, self._now)
            self._honest.remove(honest)
            self.answers += 1
            if renew:
                self._honest.append(self._new_honest(self._rng.randrange(1 << 20)))
        if self._rng.random() < 0.5:
            one_level(self._sessions, self._helpers, self._rng.choice((0.0001, 0.001, 0.03)))
        self._pass()

    def _pass(self) -> None:
        """Runs a pass as the engine does, while the clock advances."""
        sessions, fake_target = self._sessions, self._fake_target
        batch = sessions.plan(self._now)
        exports = sessions.claim_state()
        sessions.send_state(exports, fake_target.make([export.request for export in exports]), self._now)
        if batch is not None:
            outcomes = fake_target.verify(batch.scheduled)
            self._now += self._cost(batch.work.tokens)
            sessions.complete(batch, outcomes, self._now)

    def _check(self) -> None:
        if self._broken:
            raise FaultError("; ".join(self._broken))
