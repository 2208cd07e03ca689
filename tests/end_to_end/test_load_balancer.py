"""Two replicas behind Envoy, as `deploy/envoy.yaml` sets it up: sessions keep their replica, and survive it."""

import asyncio
import json
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from client.assembly import Client, client_for
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.link.offline import OfflineOptions
from client.link.stream import Access
from client.terminal.progress import download_bar
from common.address import Address
from common.protocol.messages import Settings
from common.rpc.credentials import ClientTls
from netem.links.breakable import BreakableProxy
from server.security.certificates import Issued, issue
from tests.daemon import outriderd
from tests.families import make_checkpoint
from tests.programs import Program
from tests.server.reference import Reference

ENVOY = shutil.which("envoy")
CONFIGURATION = Path(__file__).parents[2] / "deploy" / "envoy.yaml"
TOKENS = 60
PROMPTS = [list(range(first, first + 20)) for first in range(20, 140, 20)]

pytestmark = pytest.mark.skipif(ENVOY is None, reason="needs Envoy, a program named envoy")


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
        return port


def wait_for(port: int) -> None:
    """Until somebody listens there."""
    for _ in range(200):
        with suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port)).close()
        time.sleep(0.05)
    raise AssertionError(f"nobody listens on port {port}")


@contextmanager
def envoy(folder: Path, issued: Issued, replicas: Sequence[str]) -> Iterator[Address]:
    """Envoy with the shipped configuration, but for addresses and files."""
    assert ENVOY is not None
    assert issued.server is not None
    port = free_port()
    text = CONFIGURATION.read_text()
    for shipped, ours in (
        ("0.0.0.0, port_value: 7070", f"127.0.0.1, port_value: {port}"),
        ("port_value: 9901", "port_value: 0"),
        ("/etc/outrider/server.pem", str(issued.server.certificate)),
        ("/etc/outrider/server.key", str(issued.server.key)),
        ("/etc/outrider/ca.pem", str(issued.authority)),
        *(
            (f"replica-{number}.internal, port_value: 7070", replica.replace(":", ", port_value: "))
            for number, replica in enumerate(replicas, 1)
        ),
    ):
        assert shipped in text
        text = text.replace(shipped, ours)
    path = folder / "envoy.yaml"
    path.write_text(text)
    arguments = ("-c", path, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error")
    process = subprocess.Popen([ENVOY, *arguments])
    try:
        wait_for(port)
        yield Address("127.0.0.1", port)
    finally:
        process.kill()
        process.wait()


class Asked:
    """A question, and how many tokens of its answer are committed so far."""

    def __init__(self, client: Client, prompt: list[int]):
        self.final = 0
        self._client = client
        self._prompt = prompt

    async def answer(self) -> tuple[int, ...]:
        patient = OfflineOptions(limit_tokens=TOKENS, wait_s=60.0)
        async with self._client.converse(STREAM, self._client.load_drafter(), 0.0, patient) as conversation:
            settings = Settings(TOKENS, idle="eager")
            return (await conversation.answer(self._prompt, settings, self._watch)).tokens

    def _watch(self, committed: Sequence[int], provisional: Sequence[int]) -> None:
        self.final += len(committed)


async def at_least(asked: Sequence[Asked], tokens: int) -> None:
    while min(each.final for each in asked) < tokens:
        await asyncio.sleep(0.01)


def opened(replica: Program) -> dict[str, list[bool]]:
    """Of each session that a stopped replica had, for each of its streams whether it resumed the session."""
    assert replica.stderr is not None
    streams: dict[str, list[bool]] = {}
    for line in re.findall(r"^\{.*\}$", replica.stderr.read(), re.MULTILINE):
        event = json.loads(line)
        if event["event"] == "session opened":
            streams.setdefault(event["session"], []).append(event["resumed"])
    return streams


async def test_sessions_keep_their_replica_and_survive_it(tmp_path: Path) -> None:
    target = make_checkpoint(tmp_path / "target", "llama")
    issued = issue(tmp_path / "certs", ("outriderd", "127.0.0.1"), (), 30, datetime.now(UTC))
    assert issued.server is not None
    options = (
        *("--target", str(target), "--dtype", "float64", "--threads", "1", "--pace-pass", "60ms", "--log", "json"),
        *("--tls-cert", str(issued.server.certificate), "--tls-key", str(issued.server.key)),
    )
    async with AsyncExitStack() as stack:
        servers = stack.enter_context(ExitStack())
        (dying, first), (staying, second) = (servers.enter_context(outriderd(*options)) for _ in range(2))
        balancer = servers.enter_context(envoy(tmp_path, issued, (first, second)))
        proxy = await stack.enter_async_context(BreakableProxy(balancer))
        access = Access(proxy.address, ClientTls(issued.authority))
        choice = DraftChoice("lookup", dtype="float64")
        client = await stack.enter_async_context(client_for(access, choice, tmp_path / "cache", download_bar))
        asked = [Asked(client, prompt) for prompt in PROMPTS]
        answering = [asyncio.create_task(each.answer()) for each in asked]
        await at_least(asked, 5)
        proxy.reset()
        await at_least(asked, 20)
        dying.send_signal(signal.SIGKILL)
        answers = await asyncio.wait_for(asyncio.gather(*answering), 60)
        staying.send_signal(signal.SIGTERM)
        dead, alive = await asyncio.to_thread(lambda: (opened(dying), opened(staying)))
    reference = Reference(target)
    assert answers == [tuple(reference.answer(prompt, TOKENS)) for prompt in PROMPTS]
    assert len(dead.keys() | alive.keys()) == len(PROMPTS)
    assert all(streams == [False, True] for streams in dead.values()), "the link broke once, and they came back"
    assert all(alive[session] == [False] for session in dead), "then their replica died"
    assert all(alive[session] == [False, True] for session in alive.keys() - dead.keys()), "these noticed nothing of it"
