"""The life cycle of `outriderd serve`: start, report readiness, drain and stop on a signal.

It may not know what any part does.
"""

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from server.assembly import Assembled, assemble
from server.observe.log import configure_logging, note
from server.options import ServeOptions
from server.ranks.lead import Lead
from server.sessions.sessions import Sessions

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

# For the last messages of streams that end because the server stops.
_LAST_WORDS_SECONDS = 1.0


def serve(options: ServeOptions) -> None:
    """Serves until a signal ends it. Raises MisuseError where it cannot begin."""
    configure_logging(options.report.log)
    rank_info = options.target.rank_info
    if rank_info.ranks == 1:
        asyncio.run(_live(options))
        return
    with closing(Lead(rank_info)) as lead:
        asyncio.run(_live(options, lead))


async def _live(options: ServeOptions, lead: Lead | None = None) -> None:
    parts = assemble(options) if lead is None else assemble(options, lead.load_target)
    # What was loaded stays for good: no garbage collection needs to look at it and delay a pass.
    gc.collect()
    gc.freeze()
    if parts.fleet is not None:
        await parts.fleet.join()
    await parts.server.start()
    running = [asyncio.create_task(target.engine.run()) for target in parts.targets]
    if lead is not None:
        running.append(asyncio.create_task(lead.watch()))
    if parts.fleet is not None:
        membership = asyncio.create_task(parts.fleet.run())
    asked_to_stop = _on_signals()
    note("serving", str(parts.ceiling), address=str(parts.address), **parts.ceiling.as_dict())
    _say(f"ready on {parts.address}")
    if parts.metrics is not None:
        _say(f"metrics on {parts.metrics.url}")

    stopping = asyncio.create_task(asked_to_stop.wait())
    await asyncio.wait((*running, stopping), return_when=asyncio.FIRST_COMPLETED)
    held = [_held(target.engine.sessions) for target in parts.targets]
    is_asked_to = stopping.done()
    asked_to_stop.clear()
    if parts.fleet is not None:
        telling = asyncio.create_task(parts.fleet.drain())  # not waited for: a store may take its time
    if is_asked_to:
        await _drain(parts, options.drain_seconds, asked_to_stop, running)
    for each in running:
        each.cancel()
    await parts.server.stop(0)
    if parts.fleet is not None:
        membership.cancel()
        await asyncio.gather(membership, telling, return_exceptions=True)
        await parts.fleet.leave()
    if parts.metrics is not None:
        # In a thread, because a last scrape may wait for this loop.
        await asyncio.to_thread(parts.metrics.close)
    for target, held_then in zip(parts.targets, held, strict=True):
        summary = {"model": target.model, **target.engine.counters.summary(), "held": held_then}
        _say(f"summary {json.dumps(summary)}")
    if not await _end_before(asked_to_stop, running):
        faults = _faults_of(running)
        for fault in faults:
            _say(f"outriderd: {fault}")
        if lead is not None:
            lead.kill()
        os._exit(1 if faults else 0)  # the interpreter would wait for the threads of passes
    for ended in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended


def _held(sessions: Sessions) -> dict[str, int]:
    """What is in use when the server is asked to stop. More than its sessions need is a leak."""
    return {
        "sessions": len(sessions),
        "leases": sessions.away,
        "slots": sessions.held_slots,
        "tasks": len(asyncio.all_tasks()),
    }


async def _drain(
    parts: Assembled, seconds: float, asked_again: asyncio.Event, running: Sequence[asyncio.Task[None]]
) -> None:
    """Takes no new calls. Returns when all answers are done, when time is up, when the operator asks again, or when
    what is `running` fails. Calls without a session get a moment to end by themselves and do not delay the stop."""
    parts.health.set_draining()
    impatient = asyncio.create_task(asked_again.wait())
    stopped = asyncio.create_task(parts.server.stop(seconds + _LAST_WORDS_SECONDS))
    drained = asyncio.gather(*(target.engine.drain(seconds) for target in parts.targets))
    ends: Sequence[asyncio.Future[Any]] = (drained, impatient, *running)
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait((stopped, impatient), timeout=_LAST_WORDS_SECONDS, return_when=asyncio.FIRST_COMPLETED)


async def _end_before(asked_again: asyncio.Event, running: Sequence[asyncio.Task[None]]) -> bool:
    """Waits for `running`; once the operator asks again, for at most a second. Whether all ended."""
    impatient = asyncio.create_task(asked_again.wait())
    ended = asyncio.gather(*running, return_exceptions=True)
    await asyncio.wait((ended, impatient), return_when=asyncio.FIRST_COMPLETED)
    _, busy = await asyncio.wait(running, timeout=_LAST_WORDS_SECONDS)
    return not busy


def _faults_of(running: Sequence[asyncio.Task[None]]) -> list[BaseException]:
    """What ended those that have failed, while others are still busy."""
    ended = (each for each in running if each.done() and not each.cancelled())
    return [fault for each in ended if (fault := each.exception()) is not None]


def _on_signals() -> asyncio.Event:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, asked.set)
    return asked


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
