"""A hostile mix beside honest clients, over gRPC against a real `outriderd`: `python -m tests.fuzz.mix --seconds 1800`.

First the honest clients run alone, as a baseline of the same run; then `hostile_load` runs beside them. Exits with 1 if
the server fails, if an honest answer differs or is missing, if the gaps between honest commits grow beyond the limit,
or if the server holds more memory than it states.
"""

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from uuid import uuid4

import numpy as np
import psutil

from common.protocol.client_session import ClientSession, Limits
from common.protocol.errors import OutriderError
from common.protocol.messages import Commit, Failed, Settings
from common.protocol.transitions import ClientState
from common.rpc.description import ServerDescription
from common.rpc.stub import Connection, connect
from tests.daemon import outriderd_saying, stated_bytes
from tests.fuzz.runner import FuzzError
from tests.programs import Program

_HONEST, _HOSTILE = "honest-token", "hostile-token"
_QUESTIONS = 6
_TOKENS = 40
_SAMPLE_SECONDS = 0.1
_ALLOWED_BESIDE = 200e6  # bytes: sessions, trees and the passes over them


@dataclass(slots=True)
class Honest:
    """Measurements of the honest clients in one phase."""

    gaps: list[float] = field(default_factory=list)  # seconds between commits of an answer
    first: list[float] = field(default_factory=list)  # seconds to the first commit
    answers: int = 0
    refused: int = 0  # how often a client was refused with a time to retry, or lost its stream

    def quantiles_ms(self) -> tuple[float, float]:
        return tuple(1000 * float(value) for value in np.quantile(self.gaps, (0.5, 0.95)))  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Mixed:
    """The result of a run."""

    quiet: Honest
    hostile: Honest
    counts: dict[str, int]
    base_bytes: int
    peak_bytes: int
    ceiling_bytes: float
    log_bytes: int

    @property
    def ratios(self) -> tuple[float, float]:
        quiet, hostile = self.quiet.quantiles_ms(), self.hostile.quantiles_ms()
        return hostile[0] / quiet[0], hostile[1] / quiet[1]

    def __str__(self) -> str:
        quiet, hostile, ratios = self.quiet.quantiles_ms(), self.hostile.quantiles_ms(), self.ratios
        counts = ", ".join(f"{count} {what}" for what, count in self.counts.items())
        return (
            f"beside {counts}:\n"
            f"  {self.hostile.answers} honest answers, each the same as without ({self.quiet.answers} of them); "
            f"{self.hostile.refused} times one had to try again\n"
            f"  honest gaps p50 {quiet[0]:.1f} -> {hostile[0]:.1f} ms ({ratios[0]:.2f} times), "
            f"p95 {quiet[1]:.1f} -> {hostile[1]:.1f} ms ({ratios[1]:.2f} times)\n"
            f"  first token p95 {1000 * np.quantile(self.quiet.first, 0.95):.0f} -> "
            f"{1000 * np.quantile(self.hostile.first, 0.95):.0f} ms\n"
            f"  the server's resident memory {self.base_bytes / 1e6:.0f} MB when it was quiet, at most "
            f"{self.peak_bytes / 1e6:.0f} MB, below a stated {self.ceiling_bytes / 1e6:.0f} MB; it logged "
            f"{self.log_bytes / 1e3:.0f} kB"
        )


def mix(target: str, seconds: float, quiet_seconds: float, clients: int, seed: str, pace: str) -> Mixed:
    """Raises FuzzError for a failure."""
    with tempfile.TemporaryDirectory(prefix="outrider-mix-") as folder:
        tokens = Path(folder) / "tokens.toml"
        tokens.write_text(
            f'[honest]\ntoken = "{_HONEST}"\n[hostile]\ntoken = "{_HOSTILE}"\nmax_sessions = 16\n', encoding="utf-8"
        )
        tokens.chmod(0o600)
        options = ("--target", target, "--threads", "1", "--idle", "eager", "--pace-pass", pace, "--lease", "5")
        with outriderd_saying(*options, "--tokens-file", str(tokens)) as (process, address, said):
            run = _Run(process, address, stated_bytes(said), seed)
            return asyncio.run(run.run(seconds, quiet_seconds, clients))


class _Run:
    def __init__(self, process: Program, address: str, stated: float, seed: str):
        """`stated`: the bytes that clients without a session can make the server hold, as it says."""
        self._process, self._address, self._stated, self._seed = process, address, stated, seed
        self._server = psutil.Process(process.pid)
        self._truth: dict[int, list[int]] = {}
        self._peak = 0
        # Read in a thread: the server would block once its pipe is full.
        self._log = ""
        self._reading = threading.Thread(target=self._read_log, daemon=True)
        self._reading.start()

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        self._log = self._process.stderr.read()

    async def run(self, seconds: float, quiet_seconds: float, clients: int) -> Mixed:
        async with connect(self._address, token=_HONEST) as connection:
            said = await connection.describe()
            for number in range(_QUESTIONS):
                self._truth[number] = await self._ask(connection, said, number, Honest())
        quiet = await self._phase(quiet_seconds, clients, said)
        base, self._peak = self._server.memory_info().rss, 0
        async with self._hostility() as counts:
            hostile = await self._phase(seconds, clients, said)
        async with connect(self._address, token=_HONEST) as connection:
            for number, truth in self._truth.items():
                if await self._ask(connection, said, number, Honest()) != truth:
                    raise FuzzError("an answer is another one after all of it")
        await self._end()
        ceiling = base + self._stated + _ALLOWED_BESIDE
        return Mixed(quiet, hostile, counts, base, self._peak, ceiling, len(self._log))

    async def _phase(self, seconds: float, clients: int, said: ServerDescription) -> Honest:
        honest, end = Honest(), time.monotonic() + seconds
        try:
            async with asyncio.TaskGroup() as tasks:
                for client in range(clients):
                    tasks.create_task(self._visit(client, end, said, honest))
                tasks.create_task(self._watch(end))
        except* FuzzError as group:
            raise group.exceptions[0] from None
        if not honest.answers or not honest.gaps:
            raise FuzzError(f"no honest client was answered in {seconds:g} s")
        return honest

    async def _watch(self, end: float) -> None:
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise FuzzError(f"the server ended with {self._process.returncode}")
            self._peak = max(self._peak, self._server.memory_info().rss)
            await asyncio.sleep(_SAMPLE_SECONDS)

    async def _visit(self, client: int, end: float, said: ServerDescription, honest: Honest) -> None:
        """Asks one question after another on a connection of its own, and tries again after a refusal, as real clients
        do."""
        rng = Random(f"{self._seed}/{client}")
        while time.monotonic() < end:
            number = rng.randrange(_QUESTIONS)
            try:
                async with connect(self._address, token=_HONEST) as connection, asyncio.timeout(60):
                    answer = await self._ask(connection, said, number, honest)
            except TimeoutError as error:
                raise FuzzError("an honest client was not answered for 60 s") from error
            except OutriderError:
                honest.refused += 1
                await asyncio.sleep(0.25)
                continue
            if answer != self._truth[number]:
                raise FuzzError(f"an honest client was told {answer} and not {self._truth[number]}")
            honest.answers += 1

    async def _ask(self, connection: Connection, said: ServerDescription, number: int, honest: Honest) -> list[int]:
        rng = Random(f"{self._seed}/question {number}")
        prompt = [rng.randrange(1, said.vocab_size) for _ in range(24)]
        session = ClientSession(uuid4().hex, Limits(said.fingerprint, said.vocab_size, said.context, said.max_nodes))
        stream, asked, last = connection.generate(), time.perf_counter(), 0.0
        try:
            stream.send(session.open(prompt, Settings(_TOKENS)))
            while session.state is not ClientState.FINISHED:
                message = await stream.receive()
                if message is None or isinstance(message, Failed):
                    raise OutriderError("the answer was cut off")
                now = time.perf_counter()
                if isinstance(message, Commit):
                    (honest.gaps if last else honest.first).append(now - (last or asked))
                    last = now
                session.receive(message)
                acknowledged = session.acknowledge()
                if acknowledged is not None:
                    stream.send(acknowledged)
        finally:
            stream.close()
        return session.answer

    @asynccontextmanager
    async def _hostility(self) -> AsyncIterator[dict[str, int]]:
        counts: dict[str, int] = {}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.fuzz.hostile_load", self._address, _HOSTILE, self._seed),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None

        async def listen(stream: asyncio.StreamReader) -> None:
            async for line in stream:
                counts.update(json.loads(line))

        complaint = asyncio.create_task(process.stderr.read())
        await process.stdout.readline()  # the process has started, which takes a while
        listening = asyncio.create_task(listen(process.stdout))
        try:
            yield counts
            if process.returncode is not None:
                raise FuzzError(f"the hostile side failed: {(await complaint).decode()[-2000:]}")
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            await asyncio.gather(listening, complaint)

    async def _end(self) -> None:
        """The server must exit cleanly."""
        self._process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(self._process.wait, 60)
        await asyncio.to_thread(self._reading.join, 60)
        if self._process.returncode:
            raise FuzzError(f"the server ended with {self._process.returncode}: {self._log[-500:]}")


def _check(mixed: Mixed, most_ratio: float) -> None:
    if mixed.peak_bytes > mixed.ceiling_bytes:
        raise FuzzError("the server held more than it says")
    if most_ratio and max(mixed.ratios) > most_ratio:
        raise FuzzError(f"honest gaps grew by more than {most_ratio:g} times")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.mix", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of hostility")
    parser.add_argument("--quiet-seconds", type=float, help="of the baseline before; by default a quarter, 60 at most")
    parser.add_argument("--clients", type=int, default=4, help="honest ones")
    parser.add_argument("--most-ratio", type=float, default=1.5, help="of honest gaps; 0 only reports it")
    parser.add_argument("--target", default="demo")
    parser.add_argument("--pace-pass", default="80ms", help="what a pass costs, as a datacenter's takes")
    parser.add_argument("--seed", default="0", help="what questions and hostility follow from")
    asked = parser.parse_args(arguments)
    quiet = asked.quiet_seconds or min(60.0, max(5.0, asked.seconds / 4))
    try:
        mixed = mix(asked.target, asked.seconds, quiet, asked.clients, asked.seed, asked.pace_pass)
        sys.stdout.write(f"{mixed}\n")
        _check(mixed, asked.most_ratio)
    except FuzzError as failure:
        sys.stdout.write(f"failed: {failure}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
