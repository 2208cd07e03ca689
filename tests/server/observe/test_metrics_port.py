"""A port for metrics, those who connect to it and say nothing, or little, and what it writes to the log."""

import socket
import struct
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from threading import Timer

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.registry import Collector

from common.address import Address
from server.observe import metrics_port
from server.observe.metrics_port import MetricsPort


@contextmanager
def serving(*collectors: Collector) -> Iterator[MetricsPort]:
    registry = CollectorRegistry()
    Counter("scrapes", "Nothing.", registry=registry).inc(3)
    for each in collectors:
        registry.register(each)
    port = MetricsPort(Address("127.0.0.1", 0), registry, insecure=False)
    try:
        yield port
    finally:
        port.close()


def connected(port: MetricsPort, stack: ExitStack) -> socket.socket:
    return stack.enter_context(socket.create_connection(("127.0.0.1", port.address.port), timeout=10))


def page(port: MetricsPort) -> str:
    return urllib.request.urlopen(port.url, timeout=10).read().decode()


def test_few_connections_are_held_at_a_time(monkeypatch):
    monkeypatch.setattr(metrics_port, "_MOST_CONNECTIONS", 4)
    with serving() as port, ExitStack() as stack:
        held = [connected(port, stack) for _ in range(4)]
        assert connected(port, stack).recv(1) == b"", "it is closed at once"
        for each in held:
            each.settimeout(0.05)
            with pytest.raises(TimeoutError):
                each.recv(1)


@pytest.mark.parametrize("says", [b"", b"G"])
def test_who_sends_no_request_in_time_is_closed_however_it_dribbles(monkeypatch, says):
    monkeypatch.setattr(metrics_port, "_REQUEST_SECONDS", 0.4)
    with serving() as port, ExitStack() as stack:
        silent = connected(port, stack)
        silent.settimeout(0.1)
        ends_at = time.monotonic() + 30
        while True:
            assert time.monotonic() < ends_at, "it is still held"
            try:
                silent.send(says)
                if silent.recv(1 << 16) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        assert "scrapes_total 3.0" in page(port)


class LateTimer(Timer):
    """Whose thread is busy for a while once its connection is closed."""

    def cancel(self):
        super().cancel()
        time.sleep(0.2)


def test_a_page_comes_as_often_as_it_is_asked_for(monkeypatch):
    """Also at once after another one, whose thread may not have ended yet."""
    monkeypatch.setattr(metrics_port, "_MOST_CONNECTIONS", 2)
    monkeypatch.setattr(metrics_port, "Timer", LateTimer)
    with serving() as port:
        for _ in range(10):
            assert "scrapes_total 3.0" in page(port)


class NoThread(Timer):
    def start(self):
        raise RuntimeError("can't start new thread")


def test_threads_that_cannot_be_started_use_up_no_connections(monkeypatch, capfd):
    monkeypatch.setattr(metrics_port, "_MOST_CONNECTIONS", 2)
    with serving() as port:
        with monkeypatch.context() as exhausted:
            exhausted.setattr(metrics_port, "Timer", NoThread)
            for _ in range(3):
                with ExitStack() as stack:
                    assert connected(port, stack).recv(1) == b""
        assert "scrapes_total 3.0" in page(port)
    assert "Traceback" not in capfd.readouterr().err


class Faulty(Collector):
    def describe(self):
        return []

    def collect(self):
        raise KeyError("a secret")


def leaves(port: MetricsPort, after: bytes) -> None:
    """Says that much and resets its connection, which the port has ended by the time this returns."""
    with ExitStack() as stack:
        gone = connected(port, stack)
        gone.sendall(after)
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    while True:
        with suppress(OSError, HTTPException):  # while its connection is the only one
            return page(port)


@pytest.mark.parametrize("after", [b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n"])
def test_who_leaves_before_the_page_has_come_writes_nothing_into_the_log(monkeypatch, capfd, caplog, after):
    monkeypatch.setattr(metrics_port, "_MOST_CONNECTIONS", 1)
    with serving() as port:
        leaves(port, after)
    assert capfd.readouterr().err == ""
    assert not caplog.records


def test_a_page_that_fails_is_one_line_of_the_log(capfd, caplog):
    with serving(Faulty()) as port, pytest.raises(HTTPException):
        page(port)
    assert capfd.readouterr().err == ""
    [said] = [record.getMessage() for record in caplog.records]
    assert said.startswith("a page cannot be shown: KeyError in test_metrics_port.py:")
