"""Runs functions in processes of their own, which end with the block that waits for them. It knows no experiment."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@contextmanager
def process_pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """New processes that import what they run. Where the block is left by an exception or a cancellation, they end at
    once, and what is to run in them has failed; otherwise all of it is waited for."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        try:
            yield pool
        except BaseException:
            for process in list(pool._processes.values()):
                process.terminate()
            raise


async def in_process(
    function: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Result:
    """What a function of a module returns or raises, called in a new process, which ends with the call."""
    with process_pool(1) as pool:
        return await asyncio.wrap_future(pool.submit(function, *arguments, **named))
