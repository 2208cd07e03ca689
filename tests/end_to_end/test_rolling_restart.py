"""A server drains while it answers, and another one takes over its address: every answer stays exact."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest

from client.answer import Answer
from client.assembly import Client, client_for
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.link.offline import OfflineOptions
from client.link.stream import Access
from client.terminal.progress import download_bar
from common.address import parse_address
from common.protocol.messages import Settings
from netem.links.breakable import BreakableProxy
from tests.daemon import outriderd
from tests.families import make_checkpoint
from tests.server.reference import Reference

TOKENS = 60
PROMPTS = [list(range(first, first + 20)) for first in (40, 90, 140)]
PATIENT = OfflineOptions(limit_tokens=TOKENS, wait_s=60.0)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("rolling") / "target", "llama")


@pytest.fixture(scope="module")
def truths(target: Path) -> list[tuple[int, ...]]:
    reference = Reference(target)
    return [tuple(reference.answer(prompt, TOKENS)) for prompt in PROMPTS]


class Asked:
    """A question, and how many tokens of its answer are committed so far."""

    def __init__(self, client: Client, prompt: list[int]):
        self.final = 0
        self._client = client
        self._prompt = prompt

    async def answer(self) -> Answer:
        async with self._client.converse(STREAM, self._client.load_drafter(), 0.0, PATIENT) as conversation:
            return await conversation.answer(self._prompt, Settings(TOKENS, idle="eager"), self._watch)

    def _watch(self, committed: Sequence[int], provisional: Sequence[int]) -> None:
        self.final += len(committed)


async def test_clients_move_on_by_themselves_to_the_server_that_takes_over(
    target: Path, truths: list[tuple[int, ...]], tmp_path: Path
) -> None:
    options = ("--target", str(target), "--dtype", "float64", "--threads", "1", "--pace-pass", "60ms")
    with ExitStack() as servers:
        old, address = servers.enter_context(outriderd(*options, "--drain-seconds", "0.3"))
        _, next_address = servers.enter_context(outriderd(*options))
        async with AsyncExitStack() as stack:
            proxy = await stack.enter_async_context(BreakableProxy(parse_address(address)))
            choice = DraftChoice("lookup", dtype="float64")
            client = await stack.enter_async_context(
                client_for(Access(proxy.address), choice, tmp_path / "cache", download_bar)
            )
            asked = [Asked(client, prompt) for prompt in PROMPTS]
            answering = [asyncio.create_task(each.answer()) for each in asked[:-1]]
            while min(each.final for each in asked[:-1]) < 5:
                await asyncio.sleep(0.01)
            proxy.target = parse_address(next_address)
            old.send_signal(signal.SIGTERM)
            # A client whose first question comes while the server is already draining.
            answering.append(asyncio.create_task(asked[-1].answer()))
            answers = await asyncio.wait_for(asyncio.gather(*answering), 60)
        assert await asyncio.to_thread(old.wait, 30) == 0
    assert [answer.tokens for answer in answers] == truths
    assert [answer.failure for answer in answers] == [""] * 3
    assert {answer.finish_reason for answer in answers} <= {"length", "stop"}
    assert [answer.stats.reconnects for answer in answers[:-1]] == [1, 1]
