"""The HTTP port at which Prometheus reads metrics, served by threads of its own; and what other such ports share.

It may not know what is measured.
"""

import asyncio
import logging
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from threading import BoundedSemaphore, Thread, Timer
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, MetricsHandler

from common.address import Address
from common.protocol.errors import MisuseError
from server.fault_isolation import describe_error

_log = logging.getLogger(__name__)

_READ_SECONDS = 5.0
"""An event loop that has not answered by then is stuck, which a scrape that fails tells best."""

_REQUEST_SECONDS = 10.0
"""A connection that has not sent its request by then is closed: each has a thread."""

_MOST_CONNECTIONS = 32

Result = TypeVar("Result")


class _Server(ThreadingMixIn, HTTPServer):
    daemon_threads = True
    request_queue_size = _MOST_CONNECTIONS

    def __init__(self, listen: Address, handler: type[BaseHTTPRequestHandler]):
        self.address_family = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM)[0][0]
        self._connections = BoundedSemaphore(_MOST_CONNECTIONS)
        super().__init__((listen.host, listen.port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._connections.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            super().shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        # First, because whoever asked may ask again as soon as it sees the end.
        self._connections.release()
        super().shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        deadline = Timer(_REQUEST_SECONDS, _end_request, (request,))
        deadline.daemon = True
        try:
            deadline.start()
        except RuntimeError:  # the system allows no further thread
            self.handle_error(request, client_address)
            self.shutdown_request(request)
            return
        try:
            super().process_request_thread(request, client_address)
        finally:
            deadline.cancel()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """In place of a traceback between the lines of a log. Who asks may leave at any time, which is no fault."""
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            _log.error("a page cannot be shown: %s", describe_error(error))


def _end_request(request: socket.socket) -> None:
    with suppress(OSError):  # it is closed
        request.shutdown(socket.SHUT_RD)


class OpenPort:
    """An HTTP server that runs in a thread, with few connections at a time."""

    def __init__(self, listen: Address, handler: type[BaseHTTPRequestHandler], insecure: bool):
        """Raises MisuseError where the port is taken, and where others could read from it: nobody is asked who they
        are."""
        waiting = type(handler.__name__, (handler,), {"timeout": _REQUEST_SECONDS})
        with _opening(listen, insecure):
            self._server = _Server(listen, waiting)
        self.address = Address(listen.host, self._server.server_port)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{self.address}/metrics"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class MetricsPort(OpenPort):
    def __init__(self, listen: Address, registry: CollectorRegistry, insecure: bool):
        """Serves what is registered, now or later. Raises MisuseError as every `OpenPort`."""
        super().__init__(listen, MetricsHandler.factory(registry), insecure)


@contextmanager
def _opening(listen: Address, insecure: bool) -> Iterator[None]:
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
