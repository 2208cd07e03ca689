"""What answers, but does not serve: another than the server, one that does not take the token, one without room."""

import asyncio

import pytest

from client.link.link_state import LinkState
from common.protocol.errors import MisuseError
from common.protocol.messages import Failed, FailureCode
from common.rpc.errors import HandshakeError, LinkError
from netem.virtual.clock import run_virtually
from tests.client.link.test_reconnecting_stream import Dialler, FakeStream, Heard, greeted, reconnecting_stream


@pytest.mark.parametrize("was_heard", [False, True])
def test_a_connection_that_is_not_the_servers_is_a_link_that_is_lost(was_heard):
    """A network that wants a login first answers for the server, also to the first stream of a conversation."""

    async def run():
        stream, fresh = FakeStream(), FakeStream()
        line = reconnecting_stream(stream, Dialler(fresh))
        if was_heard:
            await greeted(line, stream)
        stream.say(HandshakeError("the server speaks no TLS"))
        with pytest.raises(LinkError, match="speaks no TLS"):
            await line.receive()
        assert (line.state, line.hung_up_by) == (LinkState.OFFLINE, "the server speaks no TLS")
        await line.reconnect()
        await greeted(line, fresh)
        assert line.hung_up_by == ""

    run_virtually(run())


def test_what_answered_in_the_servers_place_is_told_until_something_else_is_found():
    async def run():
        stream, refusing = FakeStream(), FakeStream()
        portal = HandshakeError("the server speaks no TLS")
        line = reconnecting_stream(stream, Dialler(portal, LinkError("nobody answers"), portal, refusing))
        told = []
        stream.say(LinkError("the link is gone"))
        with pytest.raises(LinkError):
            await line.receive()
        reconnecting = asyncio.create_task(line.reconnect())
        while not reconnecting.done():
            if told[-1:] != [line.hung_up_by]:
                told.append(line.hung_up_by)
            await asyncio.sleep(0.05)
        assert told == ["", "the server speaks no TLS", "", "the server speaks no TLS"]
        refusing.say(Failed(FailureCode.OVERLOADED, "no room"))
        await line.receive()
        assert line.hung_up_by == "", "the server itself has answered"

    run_virtually(run())


@pytest.mark.parametrize("was_heard", [False, True])
def test_a_token_that_is_not_accepted_is_no_outage(was_heard):
    async def run():
        stream = FakeStream()
        line = reconnecting_stream(stream, Dialler(0.1))
        if was_heard:
            await greeted(line, stream)
        stream.say(MisuseError("the server does not accept the bearer token that was given"))
        with pytest.raises(MisuseError, match="bearer token") as refused:
            await line.receive()
        assert not isinstance(refused.value, LinkError)

    run_virtually(run())


def test_a_server_that_refuses_every_stream_is_asked_less_and_less_often():
    """A refusal does not count as a sign that the server is back."""

    async def run():
        refusal = Failed(FailureCode.OVERLOADED, "no room")
        stream, listener = FakeStream(), Heard()
        refusing = [FakeStream() for _ in range(6)]
        for each in refusing:
            each.say(refusal)
        dialler = Dialler(*refusing)
        line = reconnecting_stream(stream, dialler, listener)
        await greeted(line, stream)
        line.drop()
        for _ in refusing:
            await line.reconnect()
            assert await line.receive() == refusal
            line.drop()
        assert line.reconnects == 0
        assert listener.states.count(LinkState.ONLINE) == 1
        assert dialler.attempts[-1] - dialler.attempts[-2] > 2 * (dialler.attempts[1] - dialler.attempts[0])

    run_virtually(run())
