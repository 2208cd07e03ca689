"""One Ctrl-C stops an answer, and a program that does not stop can be left with more of them."""

import asyncio
import signal
import time

import pytest

from client.terminal.interrupt import until_interrupted


def press_ctrl_c(after: float) -> None:
    asyncio.get_running_loop().call_later(after, signal.raise_signal, signal.SIGINT)


async def test_work_that_nobody_interrupts_returns_its_result():
    async def work():
        return 7

    assert await until_interrupted(work(), lambda: None) == 7


async def test_the_first_ctrl_c_lets_the_work_end_by_itself():
    stopped = asyncio.Event()

    async def work():
        await stopped.wait()
        return 7

    press_ctrl_c(0.05)
    assert await until_interrupted(work(), stopped.set) == 7


@pytest.mark.parametrize(("presses", "least", "most"), [((0.05, 0.1), 0.1, 1.0), ((0.05,), 2.0, 3.0)])
async def test_work_that_does_not_end_is_abandoned(presses, least, most):
    began = time.monotonic()
    for after in presses:
        press_ctrl_c(after)
    assert await until_interrupted(asyncio.Event().wait(), lambda: None) is None
    assert least < time.monotonic() - began < most


async def test_what_the_work_raises_is_raised():
    async def work():
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await until_interrupted(work(), lambda: None)
