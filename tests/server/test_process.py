"""The real `outriderd` as a process: its output, and how it stops."""

import asyncio
import json
import resource
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from subprocess import run
from urllib.request import urlopen

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from common.protocol.client_session import ClientSession
from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, Settings
from common.rpc.errors import LinkError
from common.rpc.stub import GenerateStream, connect
from server.fleet.redis_store import RedisStore
from tests.daemon import outriderd, outriderd_saying
from tests.programs import Program
from tests.server.client_turn import play
from tests.server.fleet.stores import real_store
from tests.server.harness import new_session
from tests.server.proposers import nothing

DAEMON = (sys.executable, "-m", "server.cli")
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@asynccontextmanager
async def daemon(target: Path, *options: str) -> AsyncIterator[tuple[Program, str]]:
    """A serving daemon and its address."""
    with outriderd("--target", str(target), "--threads", "1", *options) as (process, address):
        yield process, address


async def last_words(process: Program) -> list[str]:
    """Its output up to its end; it must exit cleanly."""
    _, said = await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == 0
    return said.splitlines()


async def runs(session: ClientSession) -> None:
    """Returns once its answer has begun."""
    while len(session.tree.tokens if hasattr(session, "tree") else ()) < 4:
        await asyncio.sleep(0.01)


async def all_of(stream: GenerateStream) -> None:
    while await stream.receive() is not None:
        pass


@asynccontextmanager
async def watched_health(address: str) -> AsyncIterator[AsyncIterator[health_pb2.HealthCheckResponse]]:
    """What it says of itself behind the first word, which is that it serves."""
    async with grpc.aio.insecure_channel(address) as channel:
        watch = aiter(health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest()))
        assert (await anext(watch)).status == health_pb2.HealthCheckResponse.SERVING
        yield watch


async def refuses(address: str) -> None:
    """Returns once nobody listens there any more. A port that closes may reset connections before."""
    host, port = address.rsplit(":", 1)
    while True:
        with suppress(ConnectionResetError):
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except ConnectionRefusedError:
                return
            writer.close()
        await asyncio.sleep(0.01)


async def test_it_drains_at_the_first_signal(target: Path) -> None:
    async with daemon(target, "--pace-pass", "20ms") as (process, address), connect(address) as connection:
        running = await new_session(connection)
        playing = asyncio.create_task(play(running, connection.generate(), running.open([5, 6], Settings(60)), nothing))
        await runs(running)
        process.send_signal(signal.SIGTERM)
        with suppress(LinkError):  # whoever still sends when the server exits may not receive the end of the stream
            await playing
        assert len(running.answer) == 60
        lines = await last_words(process)
    word, summary = lines[-1].split(" ", 1)
    counters = json.loads(summary)
    assert (word, counters["committed_tokens"], counters["recomputed_tokens"]) == ("summary", 60, 0)


async def test_a_replica_that_drains_is_listed_no_more_and_is_forgotten_when_it_ends(
    target: Path, tmp_path: Path
) -> None:
    shared, tokens = real_store(tmp_path), 80
    options = ("--pace-pass", "20ms", "--fleet-store", shared.url)
    other = RedisStore(shared.url)

    async def others() -> list[str]:
        members = (await other.exchange("other", "", {})).members
        return [record for member, record in members.items() if member != "other"]

    try:
        async with daemon(target, *options) as (process, address), connect(address) as connection:
            session, stream = await new_session(connection), connection.generate()
            playing = asyncio.create_task(play(session, stream, session.open([5, 6], Settings(tokens)), nothing))
            await runs(session)
            while [sum(json.loads(each)["sessions"].values()) for each in await others()] != [1]:
                await asyncio.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            while any(json.loads(each)["address"] for each in await others()):
                assert not playing.done()
                await asyncio.sleep(0.01)
            assert not playing.done()
            assert [sum(json.loads(each)["sessions"].values()) for each in await others()] == [1], "it goes on"
            with suppress(LinkError):  # as above
                await playing
            assert len(session.answer) == tokens
            await last_words(process)
            assert not await others()
    finally:
        await other.leave("other")
        shared.end()


async def test_health_says_when_it_drains(target: Path) -> None:
    async with daemon(target, "--pace-pass", "20ms") as (process, address), connect(address) as connection:
        async with watched_health(address) as health:
            running = await new_session(connection)
            stream = connection.generate()
            stream.send(running.open([5, 6], Settings(60)))
            await stream.receive()
            process.send_signal(signal.SIGTERM)
            assert (await anext(health)).status == NOT_SERVING
        assert process.returncode is None


async def test_answers_that_take_too_long_are_told(target: Path) -> None:
    options = ("--pace-pass", "20ms", "--drain-seconds", "0.3")
    async with daemon(target, *options) as (process, address), connect(address) as connection:
        session = await new_session(connection)
        playing = asyncio.create_task(
            play(session, connection.generate(), session.open([5, 6], Settings(1000)), nothing)
        )
        await runs(session)
        process.send_signal(signal.SIGTERM)
        with pytest.raises(PeerError, match="draining") as failure:
            await playing
        assert failure.value.code is FailureCode.DRAINING
        assert await asyncio.to_thread(process.wait, 10) == 0


async def test_the_second_signal_ends_it_at_once(target: Path) -> None:
    async with AsyncExitStack() as stack:
        process, address = await stack.enter_async_context(daemon(target, "--pace-pass", "20ms"))
        connection = await stack.enter_async_context(connect(address))
        health = await stack.enter_async_context(watched_health(address))
        session = await new_session(connection)
        playing = asyncio.create_task(
            play(session, connection.generate(), session.open([5, 6], Settings(1000)), nothing)
        )
        await runs(session)
        process.send_signal(signal.SIGINT)
        assert (await anext(health)).status == NOT_SERVING
        assert process.returncode is None
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, 5) == 0
        with pytest.raises(LinkError, match=f"{address}"):
            await playing


async def test_the_second_signal_waits_for_no_pass(target: Path) -> None:
    async with AsyncExitStack() as stack:
        process, address = await stack.enter_async_context(daemon(target, "--pace-pass", "90s"))
        connection = await stack.enter_async_context(connect(address))
        health = await stack.enter_async_context(watched_health(address))
        session, stream = await new_session(connection), connection.generate()
        stream.send(session.open([5, 6], Settings(10)))
        await connection.describe()  # so that the server has read what was sent before
        process.send_signal(signal.SIGTERM)
        assert (await anext(health)).status == NOT_SERVING
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 30) == 0
        with suppress(LinkError):  # as the server has said it or not
            await all_of(stream)


async def test_a_server_that_drains_leaves_its_port_to_the_next_at_once(target: Path) -> None:
    options = ("--pace-pass", "60ms", "--drain-seconds", "90")
    async with daemon(target, *options) as (process, address), connect(address) as connection:
        session, stream = await new_session(connection), connection.generate()
        playing = asyncio.create_task(play(session, stream, session.open([5, 6], Settings(1500)), nothing))
        await runs(session)
        process.send_signal(signal.SIGTERM)
        await refuses(address)
        async with daemon(target, "--listen", address) as (_, same), connect(same) as another:
            assert same == address
            assert (await another.describe()).vocab_size == 300
            assert process.returncode is None
            assert not playing.done()
        playing.cancel()


async def test_it_tells_of_sessions_and_shows_metrics_where_asked(target: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text('[alice]\ntoken = "secret"\nrequests_per_minute = 1\n')
    options = ("--metrics", "127.0.0.1:0", "--log", "json", "--tokens-file", str(tokens))
    async with AsyncExitStack() as stack:
        serving = outriderd_saying("--target", str(target), "--threads", "1", *options)
        process, address, said_before = stack.enter_context(serving)
        connection = await stack.enter_async_context(connect(address, token="secret"))
        url = process.stderr.readline().removeprefix("metrics on ").strip()
        answered, refused = [await new_session(connection) for _ in range(2)]
        stream = connection.generate()
        assert len(await play(answered, stream, answered.open([5, 6], Settings(7)), nothing)) == 7
        with pytest.raises(PeerError, match="'alice' has used up its requests, 1 a minute; come back in") as failure:
            await play(refused, connection.generate(), refused.open([5, 6], Settings(7)), nothing)
        assert failure.value.code is FailureCode.QUOTA
        said = await asyncio.to_thread(lambda: urlopen(url, timeout=10).read().decode())
        process.send_signal(signal.SIGTERM)
        lines = await last_words(process)
    assert f'vllm:generation_tokens_total{{model_name="{target.name}"}} 7.0' in said
    assert f'outrider_refused_total{{model_name="{target.name}",reason="quota_requests"}} 1.0' in said
    assert lines[-1].startswith("summary {")
    told = [json.loads(line) for line in (said_before.splitlines()[-1], *lines[:-1])]
    assert [each["event"] for each in told[:4]] == [
        "serving",
        "session opened",
        "answer finished",
        "session refused",
    ]
    assert told[0]["cache_bytes"] > 0
    assert {each["client"] for each in told[1:4]} == {"alice"}


def test_help_comes_without_loading_torch() -> None:
    code = "import sys, server.cli; sys.exit(bool({'torch', 'grpc', 'transformers'} & set(sys.modules)))"
    assert run([sys.executable, "-c", code]).returncode == 0
    assert min(_seconds_of_help() for _ in range(3)) <= 0.6


def _seconds_of_help() -> float:
    """CPU time, so that the load of this machine does not count."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run([*DAEMON, "--help"], capture_output=True).returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
