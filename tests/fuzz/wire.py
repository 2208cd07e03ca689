"""Malformed frames over gRPC to a real `outriderd`, with an honest `outrider run` beside them whose text must not
change.

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
from tests.fuzz.client_frames import ClientView, client_frame, opening
from tests.fuzz.mutation import Mutator
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
_PACE = ("--pace-pass", "2ms", "--pace-token", "0.1ms", "--pace-draft", "1ms")  # widens the passes
_PATIENCE = 60.0  # seconds until a stream must have been answered, even on a busy machine


@dataclass(slots=True)
class WireReport:
    frames: int = 0
    answers: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)


def fuzz_over_grpc(frames: int, seed: str) -> str:
    """Sends this many malformed frames on short streams and returns a report. Raises FuzzError on a failure."""
    with tempfile.TemporaryDirectory(prefix="outrider-fuzz-") as cache:
        options = ("--target", "demo", "--lease", str(_LEASE_SECONDS), "--threads", "1", *_PACE)
        with outriderd(*options) as (process, address):
            return asyncio.run(_fuzz_over_grpc(frames, seed, address, process, Path(cache)))


async def _fuzz_over_grpc(frames: int, seed: str, address: str, process: Program, cache: Path) -> str:
    rng, report = Random(f"{seed}/wire"), WireReport()
    server = psutil.Process(process.pid)
    truth = await _ask(address, cache)
    async with _honest(address, cache, truth, report):
        await _send_malformed(address, int(_WARM_UP * frames), rng, report)
        before = server.memory_info().rss
        await _send_malformed(address, frames, rng, report)
    if not report.answers:
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
    counts = ", ".join(f"{count} {outcome}" for outcome, count in report.outcomes.most_common())
    return (
        f"{report.frames} malformed frames over gRPC to a real outriderd: {counts}\n"
        f"  {report.answers} answers of an honest `outrider run` beside them, all the same text\n"
        f"  the server's resident memory {before / 1e6:.1f} MB after the warm-up, {after / 1e6:.1f} MB at the end; "
        f"it held {held['sessions']} sessions, {held['leases']} leases and {held['slots']} slots"
    )


def _stop(process: Program) -> dict[str, Any]:
    """What the server held when it was asked to stop. Raises FuzzError if it does not exit cleanly."""
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    lines = [line for line in said.splitlines() if line.startswith("summary ")]
    if process.returncode or not lines:
        raise FuzzError(f"the server ended with {process.returncode}: {said[-500:]}")
    return dict(json.loads(lines[0].removeprefix("summary "))["held"])


@asynccontextmanager
async def _honest(address: str, cache: Path, truth: str, report: WireReport) -> AsyncIterator[None]:
    """Asks one question after another until the block ends."""
    over = asyncio.Event()

    async def ask() -> None:
        while not over.is_set():
            text = await _ask(address, cache)
            if text != truth:
                raise FuzzError(f"an honest client was told {text!r} and not {truth!r}")
            report.answers += 1

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


async def _send_malformed(address: str, frames: int, rng: Random, report: WireReport) -> None:
    end = report.frames + frames
    async with connect(address) as connection:
        said = await connection.describe()
    async with grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS) as channel:

        async def send(seed: int) -> None:
            own = Random(seed)
            while report.frames < end:
                drawn = own.random()
                if drawn < 0.03:
                    await _call(channel, own, report)
                elif drawn < 0.05:
                    await asyncio.to_thread(_send_raw_bytes, address, own, report)
                else:
                    view = ClientView(
                        f"{own.getrandbits(64):016x}", said.fingerprint, said.vocab_size, said.context, "moa"
                    )
                    await malformed_stream(channel, view, own, report)

        await asyncio.gather(*(send(rng.getrandbits(64)) for _ in range(_STREAMS_AT_ONCE)))


async def malformed_stream(
    channel: grpc.aio.Channel, view: ClientView, rng: Random, report: WireReport, metadata: Metadata = ()
) -> None:
    """Sends a few frames, most of them mutated. Raises FuzzError on an internal error of the server."""
    call = channel.stream_stream(f"{_SERVICE}Generate")(metadata=metadata)
    mutate = Mutator()
    try:
        async with asyncio.timeout(_PATIENCE):
            if rng.random() < 0.9:
                await call.write(opening(view, rng).SerializeToString())
            for _ in range(_FRAMES_OF_STREAM):
                fuzzed = mutate(client_frame(view, rng), rng)
                report.frames += fuzzed.mutated
                await call.write(fuzzed.data)
            if rng.random() < 0.3:
                report.outcomes["streams that were left"] += 1
                return
            # An answer that needs another frame of this client fails now, and the stream ends.
            await call.done_writing()
            last = b""
            async for said in call:
                last = said
        report.outcomes[_outcome_of(last)] += 1
    except TimeoutError as error:
        raise FuzzError(f"a stream was not answered for {_PATIENCE:g} s") from error
    except (grpc.RpcError, asyncio.InvalidStateError):
        report.outcomes["streams that were refused while they were written"] += 1
    finally:
        # A call that a failed write has ended keeps its place on the connection until it has been read to its end.
        if not call.cancel():
            with suppress(grpc.RpcError):
                async for _ in call:
                    pass


def _outcome_of(last: bytes) -> str:
    message = convert.message_from_server(pb.ServerFrame.FromString(last)) if last else None
    if isinstance(message, Failed):
        if message.code is FailureCode.INTERNAL:
            raise FuzzError(f"the server failed by itself: {message.message}")
        return "streams that were refused"
    return "streams that were answered"


async def _call(channel: grpc.aio.Channel, rng: Random, report: WireReport) -> None:
    """The unary calls and downloads."""
    data = rng.randbytes(rng.choice((0, 1, 10, 1000)))
    report.frames += 1
    try:
        async with asyncio.timeout(_PATIENCE):
            if rng.random() < 0.5:
                await channel.unary_unary(f"{_SERVICE}Describe")(data)
            else:
                async for _ in channel.unary_stream(f"{_SERVICE}FetchBundle")(data):
                    break
        report.outcomes["calls that were answered"] += 1
    except grpc.RpcError:
        report.outcomes["calls that were refused"] += 1


def _send_raw_bytes(address: str, rng: Random, report: WireReport) -> None:
    """Bytes that are not gRPC."""
    host, _, port = address.rpartition(":")
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" if rng.random() < 0.5 else b""
    report.frames += 1
    report.outcomes["connections that spoke no gRPC"] += 1
    with socket.create_connection((host, int(port)), timeout=_PATIENCE) as raw:
        try:
            raw.sendall(preface + rng.randbytes(rng.choice((1, 30, 1000, 100_000))))
        except OSError:
            return
