"""Conversations for tests, on a virtual clock: the servers that they dial, what they show, and how they are asked.
Makes no assertions."""

import asyncio

from client.conversation import Conversation
from client.drafting.loop import DraftingLoop
from client.drafting.policies import STREAM
from client.link.offline import OfflineOptions
from common.protocol.client_session import ClientSession
from common.protocol.messages import Failed, FailureCode, Open, Settings
from common.rpc.errors import LinkError
from netem.virtual.clock import VirtualWorker
from tests.client.fakes import LIMITS, SESSION, FakeStream

PROMPT = (3, 1, 4, 1, 5)
COUNT = 40
LEVEL_S = 0.001


def now() -> float:
    return asyncio.get_running_loop().time()


class Server:
    """A dialler: nobody answers until `back` seconds after the first attempt, then `stream` does."""

    def __init__(self, back: float = 0.0, **how):
        self.streams: list[FakeStream] = []
        self.attempts = 0
        self._back = back
        self._how = how
        self._first: float | None = None

    async def __call__(self) -> FakeStream:
        self.attempts += 1
        self._first = now() if self._first is None else self._first
        if now() - self._first < self._back:
            raise LinkError("nobody is there")
        self.streams.append(FakeStream(**self._how))
        return self.streams[-1]

    @property
    def opened(self) -> list[Open]:
        return [message for stream in self.streams for message in stream.sent if isinstance(message, Open)]


class Refusing(FakeStream):
    """Sends prepared messages, whatever it receives."""

    def __init__(self, code: FailureCode):
        super().__init__()
        self._failed = Failed(code, "it cannot be")

    def _take(self, message):
        if isinstance(message, Open):
            self._frames.put_nowait(self._failed)


class Shown:
    """What was shown to the user."""

    def __init__(self):
        self.final: list[int] = []
        self.provisional: tuple[int, ...] = ()
        self.longest: tuple[int, ...] = ()

    def __call__(self, committed, provisional):
        self.final += committed
        self.provisional = tuple(provisional)
        self.longest = max(self.longest, self.provisional, key=len)


PATIENT = OfflineOptions(wait_s=5.0)


def conversation(stream, dial, drafter=None, policy=STREAM, offline=PATIENT, ends=(), leave_full=None):
    wanted = drafter.state if drafter is not None and policy.drafts else None
    loop = DraftingLoop(ClientSession(SESSION, LIMITS, wanted), policy, drafter is not None, ends)
    return Conversation(
        stream, loop, drafter, "fake", LEVEL_S, policy.tree, now, VirtualWorker, dial, offline, leave_full
    )


async def ask(talk, shown=None, count=COUNT, tokens=PROMPT, idle=""):
    shown = Shown() if shown is None else shown
    return await asyncio.wait_for(talk.answer(tokens, Settings(count, idle=idle), shown), 20)


async def until(condition) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)
