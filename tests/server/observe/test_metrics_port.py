"""A port for metrics and those who connect to it and say nothing."""

import socket
import threading
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Counter

from common.address import Address
from server.observe import metrics_port
from server.observe.metrics_port import MetricsPort


@pytest.fixture
def port(monkeypatch):
    monkeypatch.setattr(metrics_port, "_SILENCE_SECONDS", 0.5)
    registry = CollectorRegistry()
    Counter("scrapes", "Nothing.", registry=registry).inc(3)
    made = MetricsPort(Address("127.0.0.1", 0), registry, insecure=False)
    yield made
    made.close()


def page(port: MetricsPort) -> str:
    return urllib.request.urlopen(port.url, timeout=5).read().decode()


def test_who_says_nothing_holds_few_threads_and_not_for_long(port):
    threads = threading.active_count()
    silent = [socket.create_connection(("127.0.0.1", port.address.port)) for _ in range(60)]
    most, ends_at = 0, time.monotonic() + 30
    while time.monotonic() < ends_at:
        most = max(most, threading.active_count() - threads)
        if most and threading.active_count() == threads:
            break
        time.sleep(0.02)
    assert 0 < most <= 16
    assert threading.active_count() == threads
    assert "scrapes_total 3.0" in page(port)
    for each in silent:
        each.close()


def test_a_page_comes_as_often_as_it_is_asked_for(port):
    for _ in range(40):
        assert "scrapes_total 3.0" in page(port)
