"""What runs beside a block ends with it, and its errors end the block."""

import asyncio

import pytest

from netem.experiments.service.background import in_background


async def test_what_runs_beside_a_block_ends_with_it():
    async def forever() -> None:
        await asyncio.sleep(3600)

    async with asyncio.timeout(5), in_background(forever(), forever()) as running:
        await asyncio.sleep(0)
        assert not any(task.done() for task in running)
    assert all(task.cancelled() for task in running)


async def test_an_error_beside_a_block_ends_it_and_is_raised():
    async def fails() -> None:
        raise ValueError("no such fault")

    with pytest.raises(ValueError, match="no such fault"):
        async with asyncio.timeout(5), in_background(fails()):
            await asyncio.sleep(3600)


async def test_an_error_of_a_block_is_raised_as_it_is():
    async def forever() -> None:
        await asyncio.sleep(3600)

    with pytest.raises(KeyError):
        async with in_background(forever()) as running:
            raise KeyError("of the block")
    assert all(task.cancelled() for task in running)
