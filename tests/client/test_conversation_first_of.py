"""Tasks that run side by side: the first to end ends all."""

import asyncio

import pytest

from client.conversation import first_of


async def forever(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("cancelled")


async def test_the_first_that_ends_ends_the_others():
    ended: list[str] = []
    await first_of(forever(ended), asyncio.sleep(0), forever(ended))
    assert ended == ["cancelled"] * 2


async def test_what_the_first_raises_is_raised():
    async def fail():
        raise ValueError("broken")

    ended: list[str] = []
    with pytest.raises(ValueError, match="broken"):
        await first_of(forever(ended), fail())
    assert ended == ["cancelled"]
