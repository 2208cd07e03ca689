"""A fleet of replicas that are no processes, on a clock that is set by hand. Makes no assertions about plans."""

import asyncio
from collections.abc import Callable, Sequence

from common.address import Address
from server.supervisor.replica import Heard, read_page
from server.supervisor.scaling import Bounds
from server.supervisor.supervisor import ReplicaLostError, Supervisor

PAGE = "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting {}\n"


class FakeReplica:
    """Serves at once, unless it is told how to end instead."""

    def __init__(self, number: int, code: int | None = None):
        self.address = Address("gpu", 7070 + number)
        self.told: list[Sequence[Address]] = [()]
        self.offered = 0
        self.can_write = True
        self.is_told_at_once = asyncio.Event()
        self.is_told_at_once.set()
        self.lines: list[str] = ["loaded"]
        self.code = code
        self.is_lost = False
        self.is_closed = False
        self.drains = 0
        self.waiting = 0
        self.written: str | None = None
        self.url = ""  # of a page that is read there
        self.pages = 0
        self.is_silent = False
        self._silence = asyncio.Event()
        self.ends_when_drained = True

    async def poll(self) -> Heard:
        await asyncio.sleep(0)
        if self.is_lost:
            raise ReplicaLostError("its Ray actor is gone")
        lines, self.lines = tuple(self.lines), []
        return Heard(lines, self.address if self.code is None else None, self.code)

    def drain(self) -> None:
        self.drains += 1
        if self.ends_when_drained:
            self.code = 0

    def kill(self) -> None:
        self.code = -9

    async def tell(self, addresses: Sequence[Address]) -> bool:
        self.offered += 1
        await self.is_told_at_once.wait()
        if self.can_write:
            self.told.append(addresses)
        return self.can_write

    async def page(self) -> str:
        if self.is_silent:
            await self._silence.wait()
        self.pages += 1
        if self.url:
            return await asyncio.to_thread(read_page, self.url)
        return PAGE.format(self.waiting) if self.written is None else self.written

    def end_silence(self) -> None:
        self.is_silent = False
        self._silence.set()

    async def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True


class Fleet:
    """A supervisor of fake replicas, on a clock that is set by hand."""

    def __init__(self, bounds: Bounds, codes: Sequence[int] = ()):
        self.now = 0.0
        self.said: list[str] = []
        self.replicas: list[FakeReplica] = []
        self.codes = list(codes)
        self.supervisor = Supervisor(self._start, bounds, self.said.append, lambda: self.now)
        self.running = asyncio.create_task(self.supervisor.run())

    def _start(self, number: int) -> FakeReplica:
        self.replicas.append(FakeReplica(number, self.codes.pop(0) if self.codes else None))
        return self.replicas[-1]

    async def until(self, done: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not done():
                assert not self.running.done(), self.running
                await asyncio.sleep(0.001)

    async def is_ready(self) -> None:
        await self.until(lambda: [line for line in self.said if line.startswith("ready on ")])

    async def reads_loads(self, times: int, interval_s: float) -> None:
        for _ in range(times):
            self.now += interval_s
            await asyncio.sleep(0.01)

    async def ended(self) -> None:
        self.supervisor.end()
        async with asyncio.timeout(20):
            await self.running
        assert all(each.is_closed for each in self.replicas)
