"""Tasks that end together. Knows nothing of what they do."""

import asyncio
from collections.abc import Coroutine


async def first_of(*together: Coroutine[None, None, None]) -> None:
    """Runs them side by side until the first ends or fails, which ends the others."""
    tasks = [asyncio.create_task(one) for one in together]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
