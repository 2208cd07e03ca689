"""Answers whose conversation takes long to be sent anew: what that takes is not held against the server."""

import asyncio

import pytest

from client.link.offline import OfflineOptions
from common.rpc.errors import LinkError
from common.rpc.traffic import Traffic
from tests.client.conversation.conversations import COUNT, PROMPT, ask, conversation
from tests.client.fakes import ChainDrafter, FakeStream, decoded, target


class LongUpload(FakeStream):
    """Answers once a long conversation has come to it."""

    def __init__(self):
        super().__init__()
        self.traffic = Traffic(up=48_000)

    def _take(self, message):
        loop = asyncio.get_running_loop()
        loop.call_later(1.5, super()._take, message)
        loop.call_later(1.5, self._heard.set)


@pytest.mark.parametrize("drafter", [None, ChainDrafter(target)], ids=["nobody", "chain"])
async def test_the_upload_of_a_long_conversation_uses_up_no_patience(drafter):
    async def dial():
        return LongUpload()

    offline = OfflineOptions(limit_tokens=8, wait_s=0.5)
    talk = conversation(FakeStream(breaks_after=3), dial, drafter, offline=offline)
    answer = await ask(talk)
    talk.close()
    assert (answer.finish_reason, answer.tokens) == ("length", decoded(PROMPT, COUNT))


class LostUpload(FakeStream):
    """Counts a long conversation once it leaves, as a real stream does, and is lost before it has come."""

    def send(self, message):
        loop = asyncio.get_running_loop()
        loop.call_soon(setattr, self, "traffic", Traffic(up=48_000))
        loop.call_later(0.3, self._frames.put_nowait, LinkError("gone again"))


async def test_the_upload_of_a_stream_that_was_lost_uses_up_no_patience():
    streams = iter([LostUpload, FakeStream])

    async def dial():
        kind = next(streams)
        if kind is FakeStream:
            await asyncio.sleep(0.5)
        return kind()

    talk = conversation(FakeStream(breaks_after=3), dial, offline=OfflineOptions(wait_s=0.6))
    answer = await ask(talk)
    talk.close()
    assert (answer.finish_reason, answer.tokens) == ("length", decoded(PROMPT, COUNT))
