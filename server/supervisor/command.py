"""`outriderd fleet`: joins the supervisor to Ray, to the fleet's port and to signals.

It may not know what any of them does.
"""

import asyncio
import signal
import sys
from collections.abc import Callable
from dataclasses import replace

from common.address import Address
from common.protocol.errors import MisuseError
from server.supervisor.options import SupervisorOptions
from server.supervisor.port import FleetPort
from server.supervisor.ray_replicas import RayReplica, connected
from server.supervisor.replica import Launch
from server.supervisor.supervisor import RunningReplica, Supervisor


def run(options: SupervisorOptions) -> None:
    """Until a signal ends it and all replicas have drained. Raises MisuseError and FleetError as `Supervisor`."""
    with connected(options.ray, options.needs) as machines:
        options.needs.check(machines)
        if len(machines) > 1 and options.launch.listen.is_loopback:
            raise MisuseError(
                f"clients reach no replica on another machine at {options.launch.listen}; listen on all addresses, "
                f"such as --listen 0.0.0.0:{options.launch.listen.port}"
            )

        def start(number: int) -> RunningReplica:
            return RayReplica(launch_of(options.launch, number), options.needs)

        asyncio.run(_supervise(start, options))


async def _supervise(start: Callable[[int], RunningReplica], options: SupervisorOptions) -> None:
    supervisor = Supervisor(start, options.bounds, _say)
    port = None
    if (listen := options.report.metrics) is not None:
        port = FleetPort(listen, options.is_insecure, {"/metrics": supervisor.metrics, "/health": supervisor.health})
        _say(f"metrics on {port.url}")
    loop = asyncio.get_running_loop()
    for number, does in (
        (signal.SIGTERM, supervisor.end),
        (signal.SIGINT, supervisor.end),
        (signal.SIGHUP, supervisor.update),
    ):
        loop.add_signal_handler(number, does)
    try:
        await supervisor.run()
    finally:
        if port is not None:
            await asyncio.to_thread(port.close)


def launch_of(first: Launch, number: int) -> Launch:
    """How the replica of that number is started: at the port that many after the first one's, if that is not 0."""
    listen = first.listen
    return replace(first, listen=Address(listen.host, listen.port + number)) if listen.port else first


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
