"""The engine with real models and no network: every family, both idle policies, every kind of drafter."""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from common.clock import Clock
from common.drafters.independent import IndependentNetwork
from common.drafters.tree_drafter import TreeDrafter
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.protocol.client_session import ClientSession, Limits
from common.protocol.draft_state import StateKind
from common.protocol.errors import PeerError
from common.protocol.messages import Commit, FromServer, Settings, State
from common.protocol.scheduled_tokens import ScheduledTokens
from common.protocol.terms import Terms
from server.engine import Engine
from server.models.offer import make_offer
from server.models.target_loader import load_target
from server.options import Pace, SessionOptions
from server.passes.batch import PassOutcome
from server.passes.state_export import ExportRequest
from server.sessions.sessions import ServingLimits, Sessions
from tests.families import FAMILIES
from tests.hand_set_time import HandSetTime
from tests.server.client_turn import EngineWire, play
from tests.server.fake_target import STATE, STATE_KINDS, VOCAB, FakeTarget, decode
from tests.server.helpers import Helpers
from tests.server.proposers import Proposer, guessing, knowing, nothing
from tests.server.reference import Reference

CAPACITY = 4096
TOKENS = 40


def make_engine(
    directory: Path, idle: str = "eager", device: str = "cpu", dtype: str = "float64", capacity: int = CAPACITY
) -> tuple[Engine, Sessions, Limits]:
    offer = make_offer(str(directory), ())
    terms = offer.terms(SessionOptions(idle, 128, 64, 16, Pace()), capacity)
    sessions = Sessions(terms, ServingLimits(16, 64), capacity)
    target = load_target(str(directory), device=device, dtype=dtype, capacity=capacity, threads=1)
    limits = Limits(terms.fingerprint, terms.vocab_size, terms.context, terms.max_nodes)
    return Engine(sessions, target, Pace()), sessions, limits


@pytest.mark.parametrize("idle", ["eager", "patient"])
@pytest.mark.parametrize("family", FAMILIES)
async def test_answers_equal_transformers_generation(
    family: str, idle: str, checkpoint: Callable[[str], Path], reference: Callable[[str], Reference]
) -> None:
    engine, sessions, limits = make_engine(checkpoint(family), idle)
    running = asyncio.create_task(engine.run())
    rng = random.Random(family)
    prompts = [[rng.randrange(2, 300) for _ in range(length)] for length in (1, 30, 150)]
    truths = [reference(family).answer(prompt, TOKENS) for prompt in prompts]
    proposers = [nothing, guessing(300), knowing(prompts[2] + truths[2], 0.8, 300)]
    wires = [EngineWire(engine) for _ in prompts]
    clients = [ClientSession(uuid4().hex, limits) for _ in prompts]
    plays = [
        play(client, wire, client.open(prompt, Settings(TOKENS)), propose)
        for client, wire, prompt, propose in zip(clients, wires, prompts, proposers, strict=True)
    ]
    assert await asyncio.gather(*plays) == truths
    assert engine.counters.recomputed_tokens == 0
    for wire in wires:
        wire.close()
    assert sessions.free_slots == CAPACITY
    running.cancel()


async def test_a_context_beyond_the_pool_is_refused_and_harms_no_other(
    checkpoint: Callable[[str], Path], reference: Callable[[str], Reference]
) -> None:
    """An answer that fills the pool ends there; a prompt that alone would fill it is refused in one sentence."""
    capacity = 64
    engine, sessions, limits = make_engine(checkpoint("llama"), capacity=capacity)
    running = asyncio.create_task(engine.run())
    prompt, too_long = list(range(5, 45)), list(range(5, 5 + capacity))
    wires = [EngineWire(engine) for _ in range(2)]
    filling = ClientSession(uuid4().hex, limits)
    begun = asyncio.create_task(play(filling, wires[0], filling.open(prompt, Settings(TOKENS)), guessing(300)))
    # The client does not know how little the server holds.
    other = ClientSession(uuid4().hex, replace(limits, context=4096))
    with pytest.raises(
        PeerError, match=r"has 64 tokens, but .* maximum context length is 64 tokens,.* shorten the prompt"
    ):
        await play(other, wires[1], other.open(too_long, Settings(TOKENS)), nothing)
    assert await begun == reference("llama").answer(prompt, TOKENS)[: capacity - len(prompt)]
    wires[0].close()
    assert sessions.free_slots == capacity
    running.cancel()


async def test_turns_of_one_session_stay_exact(
    checkpoint: Callable[[str], Path], reference: Callable[[str], Reference]
) -> None:
    engine, _, limits = make_engine(checkpoint("qwen2"))
    running = asyncio.create_task(engine.run())
    client, wire = ClientSession(uuid4().hex, limits), EngineWire(engine)
    opening = client.open([7, 8, 9], Settings(TOKENS))
    for _ in range(3):
        prompt = list(client.tree.tokens)
        truth = reference("qwen2").answer(prompt, TOKENS)
        assert await play(client, wire, opening, knowing(prompt + truth, 0.7, 300)) == truth
        opening = client.extend(len(client.tree.tokens) - 5, [30, 31, 32], Settings(TOKENS))
    assert engine.counters.recomputed_tokens == 0
    running.cancel()


async def test_passes_take_their_stated_cost(hand_set_time: HandSetTime) -> None:
    terms = Terms("f", VOCAB, 400, frozenset(), lambda tokens: "")
    sessions, pace = Sessions(terms, ServingLimits(4, 64), 500), Pace(per_pass=0.05, per_token=0.005)
    engine = Engine(sessions, FakeTarget(), pace, clock=hand_set_time.perf_counter)
    running = asyncio.create_task(engine.run())
    client = ClientSession(uuid4().hex, Limits("f", VOCAB, 400, 512))
    begun = hand_set_time.now
    answer = await play(client, EngineWire(engine), client.open(list(range(1, 31)), Settings(10)), nothing)
    assert hand_set_time.now - begun == pytest.approx(0.150 + 9 * 0.050)
    assert answer == decode(range(1, 31), 10, end=-1)
    assert engine.counters.overrun_passes == 0
    running.cancel()


class SlowFakeTarget(FakeTarget):
    """Making state takes time, once per call. Records what was requested. A pass behind a `make` has no result before
    `heard` is released; `is_in_time` says whether it was."""

    def __init__(self, time: HandSetTime) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.heard = threading.Semaphore(0)
        self.is_in_time: list[bool] = []
        self._time = time

    def verify(self, scheduled: Sequence[ScheduledTokens]) -> list[PassOutcome]:
        if self.calls[-1:] == ["make"]:
            self.is_in_time.append(self.heard.acquire(timeout=5))
        self.calls.append("verify")
        return super().verify(scheduled)

    def make(self, requests: Sequence[ExportRequest]) -> list[bytes | None]:
        self.calls.append("make")
        self._time.sleep(0.04)
        return super().make(requests)


async def play_with_state(
    fake_target: FakeTarget, pace: Pace, hear: Callable[[FromServer], object], clock: Clock = time.monotonic
) -> Engine:
    """One answer of 10 tokens to a prompt of 30, every frame of which is heard."""
    terms = Terms("f", VOCAB, 400, frozenset(), lambda tokens: "", state_kinds=lambda request: STATE_KINDS)
    engine = Engine(Sessions(terms, ServingLimits(4, 64), 500), fake_target, pace, fake_target, clock=clock)
    running = asyncio.create_task(engine.run())
    client = ClientSession(uuid4().hex, Limits("f", VOCAB, 400, 512), STATE)
    wire = EngineWire(engine)
    receive = wire.receive

    async def note() -> FromServer | None:
        message = await receive()
        if message is not None:
            hear(message)
        return message

    wire.receive = note  # type: ignore[method-assign]
    assert await play(client, wire, client.open(list(range(1, 31)), Settings(10)), nothing) == decode(
        range(1, 31), 10, end=-1
    )
    running.cancel()
    return engine


async def test_draft_state_is_made_within_a_stated_cost(hand_set_time: HandSetTime) -> None:
    begun, fake_target, heard = hand_set_time.now, SlowFakeTarget(hand_set_time), list[str]()

    def hear(message: FromServer) -> None:
        if isinstance(message, Commit):
            heard.append("commit")
        elif isinstance(message, State) and message.kind == "lsa":
            heard.append("state")
            fake_target.heard.release()

    engine = await play_with_state(fake_target, Pace(per_pass=0.1), hear, hand_set_time.perf_counter)
    assert engine.counters.overrun_passes == 0
    assert hand_set_time.now - begun == pytest.approx(10 * 0.1)  # and not 9 times 40 ms more
    assert engine.counters.state_seconds == pytest.approx(9 * 0.04)
    assert fake_target.calls == ["verify", *(["make", "verify"] * 9)]
    assert heard == ["commit", *(["state", "commit"] * 9)]
    assert fake_target.is_in_time == [True] * 9, "the client has the state of a commit before the next pass ends"


async def test_draft_state_is_sent_while_no_pass_is_due() -> None:
    """The client waits, so only its acknowledgements wake the server."""
    terms = Terms(
        "f", VOCAB, 4000, frozenset(), lambda tokens: "", state_kinds=lambda request: (StateKind("lsa", (2048,)),)
    )
    fake_target = FakeTarget()
    engine = Engine(Sessions(terms, ServingLimits(4, 1000), 5000), fake_target, Pace(), fake_target)
    running = asyncio.create_task(engine.run())
    client, wire = ClientSession(uuid4().hex, Limits("f", VOCAB, 4000, 512), STATE), EngineWire(engine)
    prompt = [1 + index % 40 for index in range(600)]
    wire.send(client.open(prompt, Settings(10, idle="lockstep")))
    positions: set[int] = set()
    while len(positions) < len(prompt):
        message = await asyncio.wait_for(wire.receive(), 5)
        assert message is not None
        client.receive(message)
        if isinstance(message, State):
            positions.update(range(message.start, message.start + message.count))
            acknowledgement = client.acknowledge_state()
            assert acknowledgement is not None
            wire.send(acknowledgement)
    assert engine.counters.passes == 1
    running.cancel()


async def test_an_answer_goes_on_without_state_that_fails_as_a_whole() -> None:
    class FailingExports(FakeTarget):
        def make(self, requests: Sequence[ExportRequest]) -> list[bytes | None]:
            raise KeyError("no such exporter")

    heard = list[FromServer]()
    await asyncio.wait_for(play_with_state(FailingExports(), Pace(), heard.append), 10)
    assert heard
    assert not any(isinstance(message, State) for message in heard)


class RaisingTarget(FakeTarget):
    def verify(self, scheduled: Sequence[ScheduledTokens]) -> list[PassOutcome]:
        raise ArithmeticError("the device fell off the bus")


async def test_what_ends_the_engine_is_raised_as_it_is() -> None:
    terms = Terms("f", VOCAB, 400, frozenset(), lambda tokens: "", server_drafts=True)
    engine = Engine(
        Sessions(terms, ServingLimits(4, 64), 500), RaisingTarget(), Pace(), drafter_factory=Helpers(nothing)
    )
    client = ClientSession(uuid4().hex, Limits("f", VOCAB, 400, 512))
    EngineWire(engine).send(client.open([1, 2], Settings(10)))
    with pytest.raises(ArithmeticError, match="fell off the bus"):
        await asyncio.wait_for(engine.run(), 5)


async def test_the_event_loop_goes_on_while_an_engine_that_ends_waits_for_its_pass() -> None:
    begun, goes_on, was_let_go = threading.Event(), threading.Event(), list[bool]()

    class SlowTarget(FakeTarget):
        def verify(self, scheduled: Sequence[ScheduledTokens]) -> list[PassOutcome]:
            begun.set()
            was_let_go.append(goes_on.wait(5))
            return super().verify(scheduled)

    terms = Terms("f", VOCAB, 400, frozenset(), lambda tokens: "")
    engine = Engine(Sessions(terms, ServingLimits(4, 64), 500), SlowTarget(), Pace())
    client = ClientSession(uuid4().hex, Limits("f", VOCAB, 400, 512))
    EngineWire(engine).send(client.open([1, 2], Settings(10)))
    running = asyncio.create_task(engine.run())
    await asyncio.to_thread(begun.wait)
    running.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not running.done()
    goes_on.set()
    with suppress(asyncio.CancelledError):
        await running
    assert was_let_go == [True]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
async def test_in_half_precision_drafted_answers_are_those_of_plain_decoding(
    dtype: str, checkpoint: Callable[[str], Path]
) -> None:
    """Prompts longer than a page of batch-invariant attention, drafted for one by one and then together."""
    engine, _, limits = make_engine(checkpoint("llama"), dtype=dtype)
    running = asyncio.create_task(engine.run())
    rng = random.Random(dtype)
    prompts = [[rng.randrange(2, 300) for _ in range(length)] for length in (1, 40, 62, 90)]

    async def answer(prompt: list[int], propose: Proposer) -> list[int]:
        client = ClientSession(uuid4().hex, limits)
        return await play(client, EngineWire(engine), client.open(prompt, Settings(TOKENS)), propose)

    plain = [await answer(prompt, nothing) for prompt in prompts]
    guided = [knowing(prompt + truth, 0.8, 300) for prompt, truth in zip(prompts, plain, strict=True)]
    assert [await answer(*each) for each in zip(prompts, guided, strict=True)] == plain
    assert list(await asyncio.gather(*(answer(*each) for each in zip(prompts, guided, strict=True)))) == plain
    running.cancel()


CUDA = pytest.param("cuda", marks=pytest.mark.cuda)


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-2), ("bfloat16", 0.6)])
async def test_with_smaller_dtypes_and_a_draft_model_every_token_is_near_the_best(
    device: str, dtype: str, tolerance: float, checkpoint: Callable[[str], Path], reference: Callable[[str], Reference]
) -> None:
    directory = checkpoint("llama")
    # Waiting for each tree, because so small a target is done before its draft.
    engine, _, limits = make_engine(directory, "lockstep", device, dtype)
    running = asyncio.create_task(engine.run())
    drafter = TreeDrafter(
        IndependentNetwork(PackedModel(load_causal_lm(directory, device, dtype), CAPACITY), limits.vocab_size)
    )
    client, prompt = ClientSession(uuid4().hex, limits), list(range(5, 45))
    answer = await play(client, EngineWire(engine), client.open(prompt, Settings(TOKENS)), drafter.draft)
    assert client.passes < len(answer)
    assert max(reference("llama").regrets(prompt, answer)) < tolerance
    assert engine.counters.recomputed_tokens == 0
    running.cancel()


@pytest.mark.cuda
@pytest.mark.parametrize("family", FAMILIES)
async def test_answers_on_cuda_equal_those_on_the_cpu(
    family: str, checkpoint: Callable[[str], Path], reference: Callable[[str], Reference]
) -> None:
    engine, _, limits = make_engine(checkpoint(family), device="cuda")
    running = asyncio.create_task(engine.run())
    prompt = list(range(5, 45))
    truth = reference(family).answer(prompt, TOKENS)
    client = ClientSession(uuid4().hex, limits)
    propose = knowing(prompt + truth, 0.8, 300)
    assert await play(client, EngineWire(engine), client.open(prompt, Settings(TOKENS)), propose) == truth
    running.cancel()
