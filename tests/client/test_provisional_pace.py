"""When provisional text is shown, on a virtual clock."""

import asyncio
from collections.abc import Awaitable, Callable

from client.provisional_pace import ProvisionalPace
from netem.virtual.clock import run_virtually

INTERVAL_S = 0.05

Steps = Callable[[ProvisionalPace, Callable[[str], Callable[[], None]]], Awaitable[None]]


def shown_in(steps: Steps) -> list[tuple[float, str]]:
    """What was shown, and when in milliseconds."""

    async def run() -> list[tuple[float, str]]:
        clock, shown = asyncio.get_running_loop().time, list[tuple[float, str]]()
        began = clock()

        def showing(text: str) -> Callable[[], None]:
            return lambda: shown.append((round(1000 * (clock() - began)), text))

        await steps(ProvisionalPace(INTERVAL_S, clock), showing)
        await asyncio.sleep(10.0)
        return shown

    return run_virtually(run())


def test_the_newest_is_shown_once_an_interval_and_the_last_of_it_too() -> None:
    async def steps(pace: ProvisionalPace, showing: Callable[[str], Callable[[], None]]) -> None:
        for number in range(7):
            pace.show(showing(str(number)))
            await asyncio.sleep(0.02)

    assert shown_in(steps) == [(0, "0"), (50, "2"), (100, "4"), (150, "6")]


def test_what_is_shown_for_another_reason_takes_the_place_of_what_waits() -> None:
    async def steps(pace: ProvisionalPace, showing: Callable[[str], Callable[[], None]]) -> None:
        pace.show(showing("a"))
        pace.show(showing("dropped"))
        await asyncio.sleep(0.04)
        pace.begin_anew()
        await asyncio.sleep(0.03)
        pace.show(showing("b"))

    assert shown_in(steps) == [(0, "a"), (90, "b")]


def test_what_is_dropped_is_not_shown() -> None:
    async def steps(pace: ProvisionalPace, showing: Callable[[str], Callable[[], None]]) -> None:
        pace.show(showing("a"))
        pace.show(showing("dropped"))
        pace.drop()

    assert shown_in(steps) == [(0, "a")]
