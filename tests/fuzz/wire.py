"""A real `outriderd` under fire over gRPC, with an honest `outrider run` beside it whose text must not change.

Bytes go through a channel that serialises nothing, and some go to the port without any gRPC.
"""

import asyncio
import json
import signal
import socket
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import grpc
import psutil

from common.protocol.messages import Failed, FailureCode
from common.rpc import convert
from common.rpc.channel import CLIENT_OPTIONS
from common.rpc.credentials import Metadata
from common.rpc.generated.outrider.v1 import outrider_pb2 as pb
from common.rpc.stub import connect
from tests.daemon import outriderd
from tests.fuzz.chance import Spoiler
from tests.fuzz.client_talk import Talk, client_frame, opening
from tests.fuzz.runner import FuzzError
from tests.programs import Program, command

_SERVICE = "/outrider.v1.Outrider/"
_STREAMS_AT_ONCE = 8
_FRAMES_OF_STREAM = 4
_WARM_UP = 0.2  # of all frames
_MOST_GROWTH = 32 << 20  # bytes of the server's resident memory
_QUESTION = "Write a Python function that finds the longest word in a list."
_TOKENS = 60
_LEASE_SECONDS = 1
_PACE = ("--pace-pass", "2ms", "--pace-token", "0.1ms", "--pace-draft", "1ms")  # so that wide passes take longer
_PATIENCE = 60.0  # seconds for one stream to be answered, on a machine however busy


@dataclass(slots=True)
class Fired:
    frames: int = 0
    answers: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)


def fire(frames: int, seed: str) -> str:
    """Sends so many malformed frames on short streams; returns what happened. Raises FuzzError for what must not."""
    with tempfile.TemporaryDirectory(prefix="outrider-fuzz-") as cache:
        options = ("--target", "demo", "--lease", str(_LEASE_SECONDS), "--threads", "1", *_PACE)
        with outriderd(*options) as (process, address):
            return asyncio.run(_fire(frames, seed, address, process, Path(cache)))


async def _fire(frames: int, seed: str, address: str, process: Program, cache: Path) -> str:
    dice, fired = Random(f"{seed}/wire"), Fired()
    server = psutil.Process(process.pid)
    truth = await _ask(address, cache)
    async with _honest(address, cache, truth, fired):
        await _barrage(address, int(_WARM_UP * frames), dice, fired)
        before = server.memory_info().rss
        await _barrage(address, frames, dice, fired)
    if not fired.answers:
        raise FuzzError("no honest client was answered under fire")
    if await _ask(address, cache) != truth:
        raise FuzzError("the answer is another one after the fire")
    after = server.memory_info().rss
    await asyncio.sleep(2 * _LEASE_SECONDS)
    held = await asyncio.to_thread(_stop, process)
    if after - before > _MOST_GROWTH:
        raise FuzzError(f"the server's memory grew from {before / 1e6:.1f} to {after / 1e6:.1f} MB")
    if any(held[what] for what in ("sessions", "leases", "slots")):
        raise FuzzError(f"the server still held {held}")
    counts = ", ".join(f"{count} {outcome}" for outcome, count in fired.outcomes.most_common())
    return (
        f"{fired.frames} malformed frames over gRPC to a real outriderd: {counts}\n"
        f"  {fired.answers} answers of an honest `outrider run` beside them, all the same text\n"
        f"  the server's resident memory {before / 1e6:.1f} MB after the warm-up, {after / 1e6:.1f} MB at the end; "
        f"it held {held['sessions']} sessions, {held['leases']} leases and {held['slots']} slots"
    )


def _stop(process: Program) -> dict[str, Any]:
    """What the server held when it was asked to end. Raises FuzzError where it does not end well."""
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    lines = [line for line in said.splitlines() if line.startswith("summary ")]
    if process.returncode or not lines:
        raise FuzzError(f"the server ended with {process.returncode}: {said[-500:]}")
    return dict(json.loads(lines[0].removeprefix("summary "))["held"])


@asynccontextmanager
async def _honest(address: str, cache: Path, truth: str, fired: Fired) -> AsyncIterator[None]:
    """One question after another meanwhile."""
    over = asyncio.Event()

    async def ask() -> None:
        while not over.is_set():
            text = await _ask(address, cache)
            if text != truth:
                raise FuzzError(f"an honest client was told {text!r} and not {truth!r}")
            fired.answers += 1

    asking = asyncio.create_task(ask())
    try:
        yield
    finally:
        over.set()
        await asking


async def _ask(address: str, cache: Path) -> str:
    arguments = ("run", _QUESTION, "--server", address, "--max-new-tokens", str(_TOKENS), "--json")
    process = await asyncio.create_subprocess_exec(
        *(command("outrider"), *arguments, "--cache-dir", str(cache), "--threads", "1"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaint = await process.communicate()
    if process.returncode:
        raise FuzzError(f"an honest client failed: {complaint.decode()}")
    answer = json.loads(said)
    if answer["finish_reason"] not in ("stop", "length") or answer["stats"]["reconnects"]:
        raise FuzzError(f"an honest client was cut off: {answer}")
    return str(answer["text"])


async def _barrage(address: str, frames: int, dice: Random, fired: Fired) -> None:
    end = fired.frames + frames
    async with connect(address) as connection:
        said = await connection.describe()
    async with grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS) as channel:

        async def shoot(seed: int) -> None:
            own = Random(seed)
            while fired.frames < end:
                chance = own.random()
                if chance < 0.03:
                    await _call(channel, own, fired)
                elif chance < 0.05:
                    await asyncio.to_thread(_knock, address, own, fired)
                else:
                    talk = Talk(f"{own.getrandbits(64):016x}", said.fingerprint, said.vocab_size, said.context, "moa")
                    await malformed_stream(channel, talk, own, fired)

        await asyncio.gather(*(shoot(dice.getrandbits(64)) for _ in range(_STREAMS_AT_ONCE)))


async def malformed_stream(
    channel: grpc.aio.Channel, talk: Talk, dice: Random, fired: Fired, metadata: Metadata = ()
) -> None:
    """A few frames of which most are spoilt. Raises FuzzError where the server fails by itself."""
    call = channel.stream_stream(f"{_SERVICE}Generate")(metadata=metadata)
    spoil = Spoiler()
    try:
        async with asyncio.timeout(_PATIENCE):
            if dice.random() < 0.9:
                await call.write(opening(talk, dice).SerializeToString())
            for _ in range(_FRAMES_OF_STREAM):
                shot = spoil(client_frame(talk, dice), dice)
                fired.frames += shot.spoilt
                await call.write(shot.data)
            if dice.random() < 0.3:
                fired.outcomes["streams that were left"] += 1
                return
            # Whose answer cannot go on without another word from this side is told so, and the stream ends.
            await call.done_writing()
            last = b""
            async for said in call:
                last = said
        fired.outcomes[_told(last)] += 1
    except TimeoutError as error:
        raise FuzzError(f"a stream was not answered for {_PATIENCE:g} s") from error
    except (grpc.RpcError, asyncio.InvalidStateError):
        fired.outcomes["streams that were refused while they were written"] += 1
    finally:
        # What a failed write has ended keeps its place on the connection until it is read out.
        if not call.cancel():
            with suppress(grpc.RpcError):
                async for _ in call:
                    pass


def _told(last: bytes) -> str:
    message = convert.message_from_server(pb.ServerFrame.FromString(last)) if last else None
    if isinstance(message, Failed):
        if message.code is FailureCode.INTERNAL:
            raise FuzzError(f"the server failed by itself: {message.message}")
        return "streams that were refused"
    return "streams that were answered"


async def _call(channel: grpc.aio.Channel, dice: Random, fired: Fired) -> None:
    """The calls that are no streams."""
    data = dice.randbytes(dice.choice((0, 1, 10, 1000)))
    fired.frames += 1
    try:
        async with asyncio.timeout(_PATIENCE):
            if dice.random() < 0.5:
                await channel.unary_unary(f"{_SERVICE}Describe")(data)
            else:
                async for _ in channel.unary_stream(f"{_SERVICE}FetchBundle")(data):
                    break
        fired.outcomes["calls that were answered"] += 1
    except grpc.RpcError:
        fired.outcomes["calls that were refused"] += 1


def _knock(address: str, dice: Random, fired: Fired) -> None:
    """Bytes that are no gRPC."""
    host, _, port = address.rpartition(":")
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" if dice.random() < 0.5 else b""
    fired.frames += 1
    fired.outcomes["connections that spoke no gRPC"] += 1
    with socket.create_connection((host, int(port)), timeout=_PATIENCE) as knocking:
        try:
            knocking.sendall(preface + dice.randbytes(dice.choice((1, 30, 1000, 100_000))))
        except OSError:
            return
