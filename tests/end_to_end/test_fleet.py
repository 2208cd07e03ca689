"""Three replicas that share a real store, many clients, a replica that is gone in mid-answer and a store that restarts:
every answer is exact, and nobody else moves."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from client.answer import Answer
from client.assembly import Client, client_for
from client.conversation import Conversation
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.link.offline import OfflineOptions
from client.link.stream import Access
from client.terminal.progress import download_bar
from common.address import Address, parse_address
from common.protocol.errors import MisuseError
from common.protocol.messages import Settings
from netem.experiments.service.local_store import LocalStore
from server.options import FleetOptions, Pace, ServeOptions
from tests.families import make_checkpoint
from tests.server.fleet.stores import real_store
from tests.server.harness import Running, options_for, running, with_sessions
from tests.server.reference import Reference

TOKENS = 24
REPLICAS = 3
CLIENTS = 9
PROMPTS = [list(range(first, first + 20)) for first in range(40, 40 + 5 * CLIENTS, 5)]
PATIENT = OfflineOptions(limit_tokens=TOKENS, wait_s=60.0)


@dataclass
class Replicas:
    """By their addresses, each with what ends it."""

    options: ServeOptions
    store: LocalStore
    running: dict[Address, tuple[Running, AsyncExitStack]]

    @property
    def held(self) -> dict[Address, int]:
        """How many sessions have a stream at each replica."""
        return {address: len(server.engine.sessions) for address, (server, _) in self.running.items()}

    @property
    def opened(self) -> int:
        return sum(server.engine.counters.sessions for server, _ in self.running.values())

    async def begin(self) -> None:
        stack = AsyncExitStack()
        server = await stack.enter_async_context(running(self.options))
        self.running[parse_address(server.address)] = server, stack

    async def all_listed(self) -> None:
        """Returns once each replica tells clients of all of them."""
        for address in self.running:
            async with Access(address).connect() as connection:
                while len((await connection.describe()).replicas) < len(self.running):
                    await asyncio.sleep(0.05)

    async def kill(self, address: Address) -> None:
        _, stack = self.running[address]
        await stack.aclose()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("fleet") / "target", "llama")


@pytest.fixture(scope="module")
def truths(target: Path) -> list[tuple[int, ...]]:
    reference = Reference(target)
    return [tuple(reference.answer(prompt, TOKENS)) for prompt in PROMPTS]


@pytest.fixture
async def replicas(target: Path, tmp_path: Path) -> AsyncIterator[Replicas]:
    store = real_store(tmp_path)
    paced = with_sessions(options_for(target), pace=Pace(per_pass=0.05))
    fleet = Replicas(replace(paced, fleet=FleetOptions(store.url)), store, {})
    try:
        for _ in range(REPLICAS):
            await fleet.begin()
        await fleet.all_listed()
        yield fleet
    finally:
        for address in fleet.running:
            await fleet.kill(address)
        store.end()


class Asker:
    """A client with a conversation, which keeps its stream between two questions."""

    def __init__(self, client: Client, conversation: Conversation, prompt: list[int]):
        self.final = 0
        self.chose = client.access.address
        self._conversation = conversation
        self._prompt = prompt

    async def ask(self, tokens: int) -> Answer:
        self.final = 0
        return await self._conversation.answer(self._prompt, Settings(tokens, idle="eager"), self._watch)

    def _watch(self, committed: Sequence[int], provisional: Sequence[int]) -> None:
        self.final += len(committed)


async def test_clients_of_a_replica_that_is_gone_finish_elsewhere_and_all_others_stay(
    replicas: Replicas, truths: list[tuple[int, ...]], tmp_path: Path
) -> None:
    given, choice = next(iter(replicas.running)), DraftChoice("lookup", dtype="float64")
    async with AsyncExitStack() as stack:
        random.seed(1)  # the draws of two replicas
        askers = list[Asker]()
        for prompt, truth in zip(PROMPTS, truths, strict=True):
            opening = client_for(Access(given, follow_replicas=True), choice, tmp_path / "cache", download_bar)
            client = await stack.enter_async_context(opening)
            conversation = client.converse(STREAM, client.load_drafter(), 0.0, PATIENT)
            askers.append(Asker(client, await stack.enter_async_context(conversation), prompt))
            assert (await askers[-1].ask(2)).tokens == truth[:2]
        chosen = Counter(each.chose for each in askers)
        assert len(chosen) == REPLICAS, "who was given one address found all"
        assert max(chosen.values()) - min(chosen.values()) <= 2
        assert replicas.held == chosen
        gone, moved = chosen.most_common(1)[0]
        answering = [asyncio.create_task(each.ask(TOKENS)) for each in askers]
        while not all(each.final for each in askers if each.chose == gone):
            await asyncio.sleep(0.01)
        await replicas.kill(gone)
        replicas.store.end()
        await asyncio.to_thread(replicas.store.begin)
        answers = await asyncio.wait_for(asyncio.gather(*answering), 60)
    assert [answer.tokens for answer in answers] == truths
    assert [bool(answer.stats.reconnects) for answer in answers] == [each.chose == gone for each in askers]
    assert replicas.opened == CLIENTS + moved, "a session was begun anew only where its replica was gone"


async def test_a_question_that_a_full_replica_refuses_is_answered_by_another(
    target: Path, truths: list[tuple[int, ...]], tmp_path: Path
) -> None:
    of_one_session = with_sessions(options_for(target), pace=Pace(per_pass=0.05), max_sessions=1)
    choice = DraftChoice("lookup", dtype="float64")
    async with running(of_one_session) as full, running(of_one_session) as free, AsyncExitStack() as stack:
        first = Access(parse_address(full.address))
        client = await stack.enter_async_context(client_for(first, choice, tmp_path / "cache", download_bar))
        knowing = replace(client, access=replace(first, others=(parse_address(free.address),)))
        askers = list[Asker]()
        for prompt in PROMPTS[:2]:
            conversation = knowing.converse(STREAM, client.load_drafter(), 0.0, PATIENT)
            askers.append(Asker(client, await stack.enter_async_context(conversation), prompt))
        begun = asyncio.create_task(askers[0].ask(TOKENS))
        while not askers[0].final:
            await asyncio.sleep(0.01)
        refused = await askers[1].ask(TOKENS)
        assert [(await begun).tokens, refused.tokens] == truths[:2]
        assert (await askers[1].ask(TOKENS)).tokens == truths[1]
        assert [server.engine.counters.sessions for server in (full, free)] == [1, 1], "it stays where it went"


async def test_a_replica_with_another_target_is_named_and_does_not_begin(
    replicas: Replicas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.fleet.fleet.EXPIRY_S", 0.0)  # until which it might have been killed
    other = options_for(make_checkpoint(tmp_path / "other", "llama", seed=3))
    with pytest.raises(MisuseError, match=r"is no replica of 127\.0\.0\.1:\d+, .*: the target other .* is not target"):
        async with running(replace(other, fleet=replicas.options.fleet)):
            pass
