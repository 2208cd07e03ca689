"""client.drafting.pace: what is part of a level's stated cost, in a conversation in rounds."""

import asyncio
from itertools import pairwise

from client.conversation import Conversation
from client.drafting.loop import DraftingLoop
from client.drafting.policies import LOCKSTEP
from common.pacing import PacedThread
from common.protocol.client_session import ClientSession
from common.protocol.messages import Settings
from tests.client.fakes import LIMITS, SESSION, ChainDrafter, FakeStream, target

PROMPT = (3, 1, 4, 1, 5)


class CountingRests(PacedThread):
    """How often the caller rested before each level."""

    def __init__(self, name):
        super().__init__(name)
        self.rests = []
        self._new = 0

    def rested(self):
        self._new += 1
        super().rested()

    async def run(self, cost_s, compute, before=None):
        self.rests.append(self._new)
        self._new = 0
        return await super().run(cost_s, compute, before)


async def test_a_wait_for_a_commit_is_not_part_of_a_levels_cost_and_what_follows_a_level_is():
    workers = []

    def make_worker(name):
        workers.append(CountingRests(name))
        return workers[-1]

    loop = DraftingLoop(ClientSession(SESSION, LIMITS), LOCKSTEP, has_drafter=True)
    drafter = ChainDrafter(target, depth=20)
    stream = FakeStream()
    talk = Conversation(stream, loop, drafter, "fake", tree=LOCKSTEP.tree, make_worker=make_worker)
    await asyncio.wait_for(
        talk.answer(PROMPT, Settings(40, idle=LOCKSTEP.idle), lambda committed, provisional: None), 20
    )
    talk.close()
    stream.close()
    (worker,) = workers
    begun = [number for number, rests in enumerate(worker.rests) if rests]
    assert begun[0] == 0
    assert {later - earlier for earlier, later in pairwise(begun[1:])} == {LOCKSTEP.round_levels}
