"""`outriderd serve --tensor-parallel 2`: one daemon to its clients, which ends when a rank does."""

import asyncio
import signal
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import psutil

from client.assembly import client_for
from client.drafting.draft_loader import DraftChoice
from client.link.stream import Access
from client.terminal.progress import download_bar
from common.address import parse_address
from netem.links.breakable import BreakableProxy
from tests.daemon import outriderd
from tests.end_to_end.test_rolling_restart import PROMPTS, TOKENS, Asked
from tests.families import make_checkpoint
from tests.server.reference import Reference


async def test_clients_finish_elsewhere_when_a_rank_is_killed(tmp_path: Path) -> None:
    target = make_checkpoint(tmp_path / "target", "llama")
    options = ("--target", str(target), "--dtype", "float64", "--threads", "1", "--pace-pass", "60ms")
    with ExitStack() as servers:
        divided, address = servers.enter_context(outriderd(*options, "--tensor-parallel", "2"))
        _, elsewhere = servers.enter_context(outriderd(*options))
        (other,) = psutil.Process(divided.pid).children()
        async with AsyncExitStack() as stack:
            proxy = await stack.enter_async_context(BreakableProxy(parse_address(address)))
            choice = DraftChoice("lookup", dtype="float64")
            client = await stack.enter_async_context(
                client_for(Access(proxy.address), choice, tmp_path / "cache", download_bar)
            )
            asked = [Asked(client, prompt) for prompt in PROMPTS]
            answering = [asyncio.create_task(each.answer()) for each in asked]
            # What a terminal or a unit sends to all ranks is for the first one to obey.
            for number in (signal.SIGINT, signal.SIGTERM):
                other.send_signal(number)
            while min(each.final for each in asked) < 5:
                await asyncio.sleep(0.01)
            other.kill()
            proxy.target = parse_address(elsewhere)
            answers = await asyncio.wait_for(asyncio.gather(*answering), 120)
        _, said = await asyncio.to_thread(divided.communicate, timeout=60)
    assert divided.returncode == 1
    assert said.splitlines()[-1] == "outriderd: rank 1 of the target ended by SIGKILL; start the server again"
    truths = [tuple(Reference(target).answer(prompt, TOKENS)) for prompt in PROMPTS]
    assert [answer.tokens for answer in answers] == truths
