"""A link that is gone for a while: dialling, giving up, and a whole conversation across it."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest

from client.answering import AnswerOptions
from client.drafting.policies import STREAM
from client.link.offline import OfflineOptions
from common.protocol.client_session import ClientSession
from common.protocol.messages import Finished, Opened, Settings
from common.rpc.errors import LinkError
from netem.links.outages import Outages
from netem.links.profile import LinkProfile
from netem.virtual.client import DraftSetup, LoadedDrafts, converse
from netem.virtual.clock import run_virtually
from netem.virtual.link import BreakingLink, VirtualLink
from netem.virtual.server import VirtualServer
from netem.virtual.stream import VirtualStream
from tests.netem.virtual.test_stream import PROMPT, WAY, link, make_engine
from tests.server.clients_of_sessions import LIMITS
from tests.server.fake_target import STATE

ROUND_TRIP = 2 * WAY


async def heard_to_the_end(stream: VirtualStream) -> None:
    while True:
        await stream.receive()


def gone(begins: float, ends: float) -> LinkProfile:
    return replace(link(WAY), outages=Outages(((begins, ends),)))


@pytest.mark.parametrize(
    ("outage", "stands_at"),
    [((50, 60), 2 * ROUND_TRIP), ((0, 3), 3 + 2 * ROUND_TRIP)],
)
def test_a_connection_stands_two_round_trips_after_the_link_does(outage: tuple[float, float], stands_at: float) -> None:
    async def dial() -> float:
        await VirtualLink(make_engine(), gone(*outage)).dial()
        return asyncio.get_running_loop().time()

    assert run_virtually(dial()) == pytest.approx(stands_at, abs=1e-4)


def test_a_dial_may_be_given_up_and_made_again() -> None:
    async def dial() -> float:
        virtual_link = VirtualLink(make_engine(), gone(0, 3))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await virtual_link.dial()
        await virtual_link.dial()
        return asyncio.get_running_loop().time()

    assert run_virtually(dial()) == pytest.approx(3 + 2 * ROUND_TRIP, abs=1e-4)


def test_a_server_hears_that_a_stream_was_given_up_when_the_link_is_back() -> None:
    async def give_up() -> None:
        engine = make_engine()
        running = asyncio.create_task(engine.run())
        stream = VirtualLink(engine, gone(0.2, 3)).stream()
        stream.send(ClientSession("a session that is lost", LIMITS, STATE).open(PROMPT, Settings(100)))
        assert isinstance(await stream.receive(), Opened)
        await asyncio.sleep(1)
        stream.close()
        stream.close()
        with pytest.raises(LinkError):
            await heard_to_the_end(stream)
        assert asyncio.get_running_loop().time() < 2
        await asyncio.sleep(1)
        assert len(engine.sessions) == 1
        await asyncio.sleep(1)
        assert len(engine.sessions) == 0
        running.cancel()

    run_virtually(give_up())


@pytest.mark.parametrize(("late", "known_at"), [(False, 0.2), (True, 3.0)])
def test_a_connection_that_breaks_is_known_here_at_once_and_there_then_or_when_the_link_is_back(
    late: bool, known_at: float
) -> None:
    async def break_off() -> None:
        engine = make_engine()
        running = asyncio.create_task(engine.run())
        clock = asyncio.get_running_loop().time
        stream = BreakingLink(engine, gone(0.2, 3), late=late).stream()
        stream.send(ClientSession("a session that is cut", LIMITS, STATE).open(PROMPT, Settings(100)))
        with pytest.raises(LinkError):
            await heard_to_the_end(stream)
        assert clock() == pytest.approx(0.2, abs=1e-3)
        stream.close()
        await asyncio.sleep(known_at - 0.01 - clock())
        assert len(engine.sessions) == late
        await asyncio.sleep(0.02)
        assert len(engine.sessions) == 0
        running.cancel()

    run_virtually(break_off())


def test_a_connection_that_is_being_made_breaks_with_the_others() -> None:
    """Half of its two round trips are lost, and it begins again when the link is back."""

    async def dial(kind: Callable[..., VirtualLink]) -> float:
        await kind(make_engine(), gone(1.5 * ROUND_TRIP, 3)).dial()
        return asyncio.get_running_loop().time()

    assert run_virtually(dial(partial(BreakingLink, late=False))) == pytest.approx(3 + 2 * ROUND_TRIP, abs=1e-3)
    assert run_virtually(dial(VirtualLink)) == pytest.approx(3 + WAY, abs=1e-3)


def test_connections_that_begin_after_the_last_outage_never_break() -> None:
    async def main() -> None:
        engine = make_engine()
        running = asyncio.create_task(engine.run())
        await asyncio.sleep(3)
        stream = await BreakingLink(engine, gone(1, 2), late=False).dial()
        stream.send(ClientSession("a session that lasts", LIMITS, STATE).open(PROMPT, Settings(4)))
        while not isinstance(await stream.receive(), Finished):
            pass
        running.cancel()

    run_virtually(main())


@pytest.mark.parametrize("lasts", [0.4, 5.0])
def test_an_answer_across_an_outage_is_the_targets_own(
    server: VirtualServer, loaded_drafts: LoadedDrafts, truth: Callable[[list[int], int], tuple[int, ...]], lasts: float
) -> None:
    most: list[int] = []

    def watch(committed: Sequence[int], provisional: Sequence[int]) -> None:
        most.append(len(provisional))

    async def main() -> tuple[tuple[int, ...], int]:
        async with server.serve(lease_seconds=60) as engine:
            virtual_link = VirtualLink(engine, gone(0.5, 0.5 + lasts))
            options, drafter = (
                AnswerOptions(STREAM, 60, idle="eager", pace=0.005),
                loaded_drafts.drafter(DraftSetup("twin")),
            )
            conversation = converse(
                engine, server, virtual_link.stream(), options, drafter, virtual_link.dial, OfflineOptions(wait_s=60)
            )
            answer = await conversation.answer([5, 6, 7], options.settings(), watch)
            conversation.close()
            return answer.tokens, answer.stats.reconnects

    tokens, reconnects = run_virtually(main())
    assert tokens == truth([5, 6, 7], 60)
    assert reconnects == (lasts > 1)
    assert max(most) > 10
