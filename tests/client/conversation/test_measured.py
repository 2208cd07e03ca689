"""What an answer is said to have taken, from frames that come at prepared times."""

from dataclasses import replace

from client.conversation import Conversation
from client.drafting.loop import DraftingLoop
from client.drafting.policies import CLOUD
from client.stats import Stats
from common.protocol.client_session import ClientSession
from common.protocol.messages import Commit, Constraint, Finished, FinishReason, Opened, Settings
from common.rpc.traffic import Traffic
from tests.client.conversation.conversations import PROMPT, ask, conversation
from tests.client.fakes import LIMITS, SESSION, ChainDrafter, FakeStream, target


class Recording:
    """A stream that delivers prepared frames, each at its time on the clock `now`."""

    traffic = Traffic()

    def __init__(self, frames):
        self.now = 0.0
        self._frames = iter(frames)

    def send(self, message):
        pass

    async def receive(self):
        self.now, frame = next(self._frames)
        return frame


def answered() -> Recording:
    return Recording(
        [
            (0.25, Opened(SESSION)),
            (0.5, Commit(0, 5, (7,))),
            (1.5, Commit(0, 6, (8, 9))),
            (2.0, Finished(0, 8, FinishReason.LENGTH)),
        ]
    )


async def measured(stream: Recording, settings: Settings) -> Stats:
    def slow_to_look(committed, provisional):
        stream.now += 10 if not committed else 0

    loop = DraftingLoop(
        ClientSession(SESSION, replace(LIMITS, constrain=lambda constraint: None)), CLOUD, has_drafter=False
    )
    conversation = Conversation(stream, loop, None, "none", clock=lambda: stream.now)
    return (await conversation.answer(PROMPT, settings, slow_to_look)).stats


async def test_times_are_those_of_the_frames():
    stats = await measured(answered(), Settings(3))
    assert (stats.rtt_ms, stats.ttft_seconds, stats.seconds) == (250, 0.5, 2.0)
    assert (stats.tokens_per_second, stats.accept_length, stats.passes) == (1.5, 1.5, 2)


async def test_the_compilation_of_a_constraint_counts_for_the_first_token_and_not_for_the_link():
    stats = await measured(answered(), Settings(3, constraint=Constraint("regex", "a+")))
    assert (stats.rtt_ms, stats.ttft_seconds) == (0, 0.5)


async def test_what_came_before_the_drafter_goes_on_alone_stays_counted():
    talk = conversation(FakeStream(), None, ChainDrafter(target))
    await ask(talk)
    before = talk.traffic
    assert before.up > 0
    talk.detach_drafter()
    assert talk.traffic == before
