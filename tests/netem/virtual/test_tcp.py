"""A connection over a link that loses: all of it arrives, in order, and what is lost is waited for."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netem.links.profile import Direction, LinkProfile
from netem.links.profiles import PROFILES
from netem.links.way import both_ways
from netem.virtual.clock import run_virtually
from netem.virtual.tcp import HEADER_BYTES, MSS_BYTES, Flow, connect

EXACT = 1e-6
DELAY = 0.05

Result = TypeVar("Result")


class Scripted:
    """A way that takes as long as it is told and loses the packets whose numbers after the handshake it is told."""

    def __init__(self, delay: float = DELAY, lost: Iterable[int] = ()):
        self.sent: list[tuple[int, float]] = []
        self._is_open = False
        self._delay = delay
        self._lost = set(lost)

    def send(self, size_bytes: int, now_s: float) -> float | None:
        assert not self.sent or now_s >= self.sent[-1][1], "time went back"
        if not self._is_open:
            self._is_open = True
            return now_s + self._delay
        self.sent.append((size_bytes, now_s))
        return None if len(self.sent) - 1 in self._lost else now_s + self._delay


def now() -> float:
    return asyncio.get_running_loop().time()


def over(up: Any, down: Any, talk: Callable[[Flow, Flow], Coroutine[Any, Any, Result]]) -> Result:
    async def run() -> Result:
        return await talk(*connect(up, down))

    return run_virtually(run())


def arrivals(up: Scripted, sizes: Iterable[int], down: Scripted | None = None) -> list[tuple[int, float]]:
    """Which of the writes came when, all of them begun at once."""

    async def talk(flow: Flow, _: Flow) -> list[tuple[int, float]]:
        came: list[tuple[int, float]] = []
        for index, size in enumerate(sizes):
            flow.write(size, lambda index=index: came.append((index, now())))  # type: ignore[misc]
        await asyncio.sleep(60)
        return came

    return over(up, down or Scripted(), talk)


def test_what_is_not_lost_takes_as_long_as_the_link() -> None:
    assert arrivals(Scripted(), [10, 20]) == [(0, pytest.approx(DELAY)), (1, pytest.approx(DELAY))]


def test_a_long_message_goes_in_segments_each_with_its_headers() -> None:
    way = Scripted()
    arrivals(way, [3 * MSS_BYTES + 1, MSS_BYTES])
    assert [size for size, _ in way.sent] == [MSS_BYTES + HEADER_BYTES] * 3 + [1 + HEADER_BYTES] + [
        MSS_BYTES + HEADER_BYTES
    ]


def test_a_message_has_come_with_its_last_segment() -> None:
    ((_, at),) = arrivals(Scripted(lost={1}), [3 * MSS_BYTES])
    assert at > DELAY + EXACT


def test_what_comes_behind_a_lost_packet_waits_for_it() -> None:
    came = arrivals(Scripted(lost={1}), [10, 10, 10])
    assert [index for index, _ in came] == [0, 1, 2]
    (_, first), (_, lost), (_, behind) = came
    assert first == pytest.approx(DELAY, abs=EXACT)
    assert lost > first
    assert behind == lost


def test_a_loss_is_known_after_about_a_round_trip_and_repaired_however_often() -> None:
    way = Scripted(lost={1, 2, 3})

    async def talk(flow: Flow, _: Flow) -> float:
        came: list[float] = []
        flow.write(10, lambda: None)
        await asyncio.sleep(1)
        flow.write(10, lambda: came.append(now()))
        await asyncio.sleep(60)
        return came[0] - 1

    took = over(way, Scripted(), talk)
    assert 3 * 2 * DELAY <= took - DELAY <= 3 * 1.5 * 2 * DELAY


class Counting:
    """A way that is emulated, and counts what it lost."""

    def __init__(self, way: Any):
        self._way = way
        self.lost = 0

    def send(self, size_bytes: int, now_s: float) -> float | None:
        comes = self._way.send(size_bytes, now_s)
        self.lost += comes is None
        return comes


def played(profile: LinkProfile, seed: int) -> tuple[dict[str, list[tuple[int, float]]], dict[str, int], int]:
    """Messages both ways at random moments: what came when, how many were sent, and how many packets were lost."""
    rng = random.Random(seed)
    up, down = map(Counting, both_ways(profile))

    async def talk(*flows: Flow) -> dict[str, list[tuple[int, float]]]:
        came: dict[str, list[tuple[int, float]]] = {"up": [], "down": []}
        for _ in range(60):
            way, flow = rng.choice(list(zip(came, flows, strict=True)))
            flow.write(rng.randint(1, 6000), lambda way=way, index=sent[way]: came[way].append((index, now())))  # type: ignore[misc]
            sent[way] += 1
            await asyncio.sleep(rng.choice([0, 0.001, 0.1]))
        await asyncio.sleep(600)
        return came

    sent = {"up": 0, "down": 0}
    return over(up, down, talk), sent, up.lost + down.lost


LOSSY = ("lte-flaky", "lte-bursty", "cell-edge", "congested", "handover-lte")


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), name=st.sampled_from(LOSSY))
def test_over_every_link_all_that_was_sent_arrives_once_and_in_order(seed: int, name: str) -> None:
    came, sent, _ = played(PROFILES[name], seed)
    for way, count in sent.items():
        assert [index for index, _ in came[way]] == list(range(count))
        times = [time for _, time in came[way]]
        assert times == sorted(times)


def test_the_links_of_the_test_above_do_lose() -> None:
    for name in LOSSY[:-1]:
        assert sum(played(PROFILES[name], seed)[2] for seed in range(5)) > 0


def test_the_same_run_comes_out_the_same_to_the_last_bit() -> None:
    assert played(PROFILES["lte-flaky"], 3) == played(PROFILES["lte-flaky"], 3)


def test_a_full_send_buffer_holds_back_its_writer_until_something_has_come() -> None:
    frame = 10_000

    async def talk(flow: Flow, _: Flow) -> tuple[list[float], list[int]]:
        begun: list[float] = []
        under_way: list[int] = []
        came = 0

        def arrived() -> None:
            nonlocal came
            came += 1

        for _ in range(30):
            await flow.writable()
            begun.append(now())
            flow.write(frame, arrived)
            under_way.append((len(begun) - came) * frame)
        await asyncio.sleep(60)
        assert came == 30
        return begun, under_way

    begun, under_way = over(Scripted(), Scripted(), talk)
    assert begun[0] == begun[5], "there was room at first"
    assert begun[-1] >= 2 * DELAY
    assert max(under_way) < 64 * 1024 + 2 * frame


def slow(bits_per_second: float) -> Direction:
    return Direction(rate_bits_per_s=bits_per_second, delay_ms=1)


def test_a_slow_link_lets_a_writer_on_as_fast_as_it_carries() -> None:
    profile = LinkProfile("slow", "1 Mbit/s down", up=slow(1e6), down=slow(1e6))

    async def talk(_: Flow, flow: Flow) -> float:
        for _ in range(100):
            await flow.writable()
            flow.write(1448, lambda: None)
        return now()

    carried = (100 * 1448 - 64 * 1024) * 8 / 1e6
    assert over(*both_ways(profile), talk) == pytest.approx(carried, rel=0.1)


def acknowledgements(sizes: Iterable[int], answer_after: float | None = None) -> list[float]:
    """When segments without data go back."""
    down = Scripted()

    async def talk(flow: Flow, back: Flow) -> None:
        for size in sizes:
            flow.write(size, lambda: None)
        if answer_after is not None:
            await asyncio.sleep(answer_after)
            back.write(10, lambda: None)
        await asyncio.sleep(10)

    over(Scripted(), down, talk)
    return [at for size, at in down.sent if size == HEADER_BYTES]


def test_every_second_segment_is_acknowledged_at_once_and_a_single_one_a_little_later() -> None:
    assert acknowledgements([10, 10, 10, 10]) == pytest.approx([DELAY] * 2, abs=EXACT)
    (late,) = acknowledgements([10])
    assert DELAY < late < DELAY + 0.1


def test_data_on_its_way_back_carries_the_acknowledgement() -> None:
    assert acknowledgements([10], answer_after=DELAY + 0.01) == []
    assert len(acknowledgements([10], answer_after=1.0)) == 1
