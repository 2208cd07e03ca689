"""The life of a fleet: what the plan wants is done, and what happens to replicas is told to the plan.

An asyncio shell around `plan` and `scaling`. It may not know Ray: replicas are started by a function that it is given.
"""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from prometheus_client.metrics_core import Metric

from common.address import Address, written
from common.clock import Clock
from common.counted import counted
from common.programs.command_line import MISUSE
from common.protocol.errors import MisuseError, OutriderError
from server.supervisor.pages import load_of, merged, parsed
from server.supervisor.plan import Command, Kill, Plan, Start, State, back_off_s
from server.supervisor.port import Reply, health_reply, metrics_reply
from server.supervisor.replica import Heard
from server.supervisor.scaling import Bounds, Scaling

TICK_S = 0.25
LOAD_INTERVAL_S = 2.0
PROBE_INTERVAL_S = 5.0
"""From one question whether a replica is well to the next. It is asked for its page, which needs no credentials and is
read on the event loop that serves."""

_PAGE_S = 6.0
"""So long a replica may take for its page; less than whoever scrapes the fleet waits."""

_NAME = "outriderd: "


class FleetError(OutriderError):
    """The fleet cannot go on."""


class ReplicaLostError(OutriderError):
    """The machine or the process in which a replica runs is gone."""


class RunningReplica(Protocol):
    """One started replica, wherever it runs; see `ReplicaProcess`."""

    async def poll(self) -> Heard:
        """Raises ReplicaLostError."""
        ...

    def drain(self) -> None: ...

    def kill(self) -> None:
        """Ends it at once, whatever it does."""
        ...

    async def tell(self, addresses: Sequence[Address]) -> bool:
        """Returns whether it lists them now. Raises ReplicaLostError."""
        ...

    async def page(self) -> str:
        """Raises TimeoutError where it is silent, and an exception of any other kind where there is none."""
        ...

    async def close(self) -> None:
        """Ends it, and gives back what it has."""
        ...


@dataclass(slots=True)
class _Held:
    """`listed`: the replicas that it knows of. `said`: its last line, which tells why it has ended."""

    replica: RunningReplica
    address: Address | None = None
    listed: tuple[Address, ...] = ()
    said: str = ""


class Supervisor:
    def __init__(
        self,
        start: Callable[[int], RunningReplica],
        bounds: Bounds,
        say: Callable[[str], None],
        clock: Clock = time.monotonic,
    ):
        """`start` starts the replica of that number, and returns at once. `say` writes a line for the operator."""
        self.plan = Plan(bounds.least)
        self._start = start
        self._bounds = bounds
        self._say = say
        self._clock = clock
        self._held: dict[int, _Held] = {}
        self._faults: dict[int, OutriderError] = {}
        self._restarts = Counter[int]()
        self._scaling = Scaling()
        self._load_due_s = 0.0
        self._is_ready = False
        self._is_updating = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until `end` was called and all replicas have ended. Raises MisuseError if a replica cannot begin before all
        have served, and FleetError if that or all replicas fail for good; the others are drained first."""
        fatal: OutriderError | None = None
        # Beside the loop, because a machine that is silent must hold up no restart.
        self._tasks.add(asyncio.create_task(self._follow_load()))
        try:
            while not self.plan.is_over:
                self.plan, commands = self.plan.step(self._clock())
                self._carry_out(commands)
                self._note_progress()
                if fatal is None and (fatal := self._fatal()) is not None:
                    self.end()
                for done in {task for task in self._tasks if task.done()}:
                    self._tasks.remove(done)
                    done.result()
                await asyncio.sleep(TICK_S)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.gather(*(held.replica.close() for held in self._held.values()))
        if fatal is not None:
            raise fatal

    def end(self) -> None:
        """All replicas drain; asked again, they end at once."""
        if not self.plan.is_ending:
            self.plan = self.plan.ending()
            return
        for held in self._held.values():
            held.replica.drain()

    def update(self) -> None:
        """All replicas are replaced, one after another."""
        if not self.plan.is_ending:
            self.plan, self._is_updating = self.plan.updated(), True
            self._say(f"{_NAME}replaces its replicas, one after another")

    async def metrics(self) -> Reply:
        pages = await self._pages()
        states = {state: len(self.plan.numbers(state)) for state in State}
        return metrics_reply(merged(pages, states, self._restarts))

    async def health(self) -> Reply:
        serving = self.plan.numbers(State.SERVING)
        replicas = [
            {
                "replica": number,
                "state": each.state.value,
                "address": str(held.address) if (held := self._held.get(number)) and held.address else None,
                "restarts": self._restarts[number],
            }
            for number, each in sorted(self.plan.replicas.items())
        ]
        status = "serving" if serving else "away"
        health = {"status": status, "updating": self._is_updating, "replicas": replicas}
        return health_reply(health, is_serving=bool(serving))

    # What the plan wants.

    def _carry_out(self, commands: Iterable[Command]) -> None:
        for command in commands:
            number = command.number
            if isinstance(command, Start):
                held = self._held[number] = _Held(self._start(number))
                self._tasks.add(asyncio.create_task(self._watch(number, held)))
            elif isinstance(command, Kill):
                self._say(f"{_NAME}replica {number} does not answer and is killed")
                self._held[number].replica.kill()
            else:
                self._held[number].replica.drain()

    def _serving(self) -> tuple[Address, ...]:
        found = (self._held[number].address for number in self.plan.numbers(State.SERVING))
        return tuple(dict.fromkeys(address for address in found if address is not None))

    def _note_progress(self) -> None:
        if not self.plan.is_settled or self.plan.is_ending:
            return
        if not self._is_ready:
            self._is_ready = True
            self._say(f"ready on {written(self._serving())}")
        if self._is_updating and not self.plan.is_updating:
            self._is_updating = False
            self._say(f"{_NAME}all replicas are replaced")

    def _fatal(self) -> OutriderError | None:
        failed = self.plan.numbers(State.FAILED)
        if self.plan.is_ending or not failed or (self._is_ready and not self.plan.is_lost):
            return None
        return self._faults[failed[0]]

    # What happens to replicas.

    async def _watch(self, number: int, held: _Held) -> None:
        code: int | None = None
        probing = asyncio.create_task(self._probe(number, held))
        try:
            while code is None:
                heard = await held.replica.poll()
                code = heard.code
                self._hear(number, held, heard)
                if code is None:
                    await self._tell(held)
                    await asyncio.sleep(TICK_S)
        except ReplicaLostError as lost:
            held.said = str(lost)
        finally:
            probing.cancel()
        await held.replica.close()
        del self._held[number]
        self._note_end(number, held, code)

    async def _probe(self, number: int, held: _Held) -> None:
        """Asks a replica that serves whether it is well. Runs until it is cancelled."""
        while True:
            if held.address is not None and (answered := await _answers(held.replica)) is not None:
                self.plan = self.plan.asked(number, self._clock(), answered=answered)
            await asyncio.sleep(PROBE_INTERVAL_S)

    async def _tell(self, held: _Held) -> None:
        """Tells a replica which serve, if it does not know. One list after another: a replica may work on several calls
        at a time, so that a newer list could be overtaken by an older one."""
        serving = self._serving()
        if held.listed != serving and await held.replica.tell(serving):
            held.listed = serving

    def _hear(self, number: int, held: _Held, heard: Heard) -> None:
        for line in heard.lines:
            held.said = line
            self._say(_labelled(number, line))
        if heard.address is not None and held.address is None:
            held.address = heard.address
            self.plan = self.plan.served(number, self._clock())
            self._say(f"{_NAME}replica {number} serves on {held.address}")

    def _note_end(self, number: int, held: _Held, code: int | None) -> None:
        was_draining = self.plan.replicas[number].state is State.DRAINING
        self.plan = self.plan.ended(number, self._clock(), is_misuse=code == MISUSE)
        if was_draining:
            # One that is ended before it serves does not handle the signal yet, or is ended by Ray.
            has_drained = code == 0 or (held.address is None and code in (None, -signal.SIGTERM))
            self._say(f"{_NAME}replica {number} {'has drained' if has_drained else f'{_how(code)} while it drained'}")
            return
        now = self.plan.replicas[number]
        words = held.said.removeprefix(_NAME) or "it said nothing"
        if now.state is State.FAILED:
            kind = MisuseError if code == MISUSE else FleetError
            self._faults[number] = kind(f"replica {number} cannot be kept up: {words}")
            self._say(f"{_NAME}replica {number} {_how(code)} and is not started again before the next update: {words}")
            if self._is_updating:
                self._is_updating = False
                self._say(f"{_NAME}the update ends here; replicas that it has not reached stay as they are")
            return
        self._restarts[number] += 1
        wait_s = back_off_s(now.deaths)
        self._say(f"{_NAME}replica {number} {_how(code)} and starts again in {wait_s:g} s: {words}")

    # How many there should be.

    async def _follow_load(self) -> None:
        """Until it is cancelled."""
        while self._bounds.least < self._bounds.most:
            if self._clock() >= self._load_due_s:
                self._load_due_s = self._clock() + LOAD_INTERVAL_S
                await self._scale()
            await asyncio.sleep(TICK_S)

    async def _scale(self) -> None:
        serving, pages, now = self.plan.numbers(State.SERVING), await self._pages(), self._clock()
        if not self.plan.is_steady or self.plan.is_updating or self.plan.is_ending:
            return
        if not set(serving) == set(pages) == set(self.plan.numbers(State.SERVING)):
            self._scaling = replace(self._scaling, idle_since_s=None)  # one that does not answer may be busy
            return
        # One that has failed serves nobody, and keeps its number and its devices.
        bounds = replace(self._bounds, most=self._bounds.most - len(self.plan.numbers(State.FAILED)))
        self._scaling, working = self._scaling.after(load_of(pages), bounds, len(serving), now)
        if working != len(serving):
            why = "answers wait" if working > len(serving) else "replicas are idle"
            why = "too few are left" if len(serving) < bounds.least else why
            self._say(f"{_NAME}{counted(working, 'replica')} in place of {len(serving)}: {why}")
            self.plan = self.plan.resized(working)

    async def _pages(self) -> dict[int, list[Metric]]:
        """Of those that serve and answer."""
        numbers = self.plan.numbers(State.SERVING)
        pages = await asyncio.gather(*(_page(self._held[number].replica) for number in numbers))
        return {number: page for number, page in zip(numbers, pages, strict=True) if page is not None}


async def _answers(replica: RunningReplica) -> bool | None:
    """Whether it answers or is silent; None where it cannot be asked: then it may be as well as ever, and whether its
    process has ended is found out elsewhere."""
    try:
        async with asyncio.timeout(_PAGE_S):
            await replica.page()
    except TimeoutError:
        return False
    except Exception:  # of whatever kind
        return None
    return True


async def _page(replica: RunningReplica) -> list[Metric] | None:
    try:
        async with asyncio.timeout(_PAGE_S):
            return parsed(await replica.page())
    except Exception:  # of whatever kind: a replica without a page may still serve
        return None


def _labelled(number: int, line: str) -> str:
    """A line of a replica's log as one of the fleet's."""
    if line.startswith("{"):
        return f'{{"replica": {number}, {line[1:]}'
    return f"replica {number}: {line}"


def _how(code: int | None) -> str:
    if code is None:
        return "was lost"
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
