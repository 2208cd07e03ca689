"""The HTTP port at which Prometheus reads metrics, served by threads of its own; and what other such ports share.

It may not know what is measured.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from http.server import HTTPServer
from threading import Thread
from typing import TypeVar

from prometheus_client import CollectorRegistry, start_http_server

from common.address import Address
from common.protocol.errors import MisuseError

_READ_SECONDS = 5.0
"""An event loop that has not answered by then is stuck, which a scrape that fails tells best."""

Result = TypeVar("Result")


class OpenPort:
    """An HTTP server that runs in a thread."""

    def __init__(self, host: str, server: HTTPServer, thread: Thread):
        self.address = Address(host, server.server_port)
        self._server = server
        self._thread = thread

    @property
    def url(self) -> str:
        return f"http://{self.address}/metrics"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class MetricsPort(OpenPort):
    def __init__(self, listen: Address, registry: CollectorRegistry, insecure: bool):
        """Serves what is registered, now or later. Raises MisuseError where the port is taken, and where others could
        read from it: nobody is asked who they are."""
        with opening(listen, insecure):
            super().__init__(listen.host, *start_http_server(listen.port, listen.host, registry))


@contextmanager
def opening(listen: Address, insecure: bool) -> Iterator[None]:
    """Around what opens a port for metrics. Raises MisuseError as `MetricsPort` does."""
    if not listen.is_loopback and not insecure:
        raise MisuseError(
            f"anybody could read metrics at {listen}; name an address of this machine such as 127.0.0.1:9090, or "
            "give --insecure if the network is trusted"
        )
    try:
        yield
    except OSError as error:
        raise MisuseError(f"{listen} is in use or not this machine's; name another with --metrics") from error


def read_on(loop: asyncio.AbstractEventLoop, read: Callable[[], Result]) -> Callable[[], Result]:
    """`read` for other threads: it runs on the loop's own. Raises TimeoutError where the loop does not get to it."""

    def ask() -> Result:
        answer: Future[Result] = Future()

        def give() -> None:
            try:
                answer.set_result(read())
            # The scrape that asked gets the error.
            except Exception as error:
                answer.set_exception(error)

        loop.call_soon_threadsafe(give)
        return answer.result(_READ_SECONDS)

    return ask
