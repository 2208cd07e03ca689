"""`outriderd serve --tensor-parallel 2`: one daemon to its clients, which ends when a rank does."""

import asyncio
import signal
import socket
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from subprocess import PIPE

import psutil
import pytest

from client.assembly import client_for
from client.drafting.draft_loader import DraftChoice
from client.link.stream import Access
from client.terminal.progress import download_bar
from common.address import parse_address
from netem.links.breakable import BreakableProxy
from tests.daemon import outriderd
from tests.end_to_end.test_rolling_restart import PROMPTS, TOKENS, Asked
from tests.families import make_checkpoint
from tests.programs import Program
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


def test_ranks_that_torchrun_started_are_one_daemon(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--target", str(target), "--threads", "1")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    known = {"WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for name, value in known.items():
        monkeypatch.setenv(name, str(value))
    _set_rank(monkeypatch, 1)
    with Program("outriderd", "serve", *options, stderr=PIPE) as other:
        _set_rank(monkeypatch, 0)
        with outriderd(*options) as (first, _):
            for each in (other, first):
                each.send_signal(signal.SIGTERM)
            assert (first.wait(60), other.wait(60)) == (0, 0)
        assert other.stderr is not None
        assert other.stderr.read() == ""


def _set_rank(monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.setenv(name, str(rank))
