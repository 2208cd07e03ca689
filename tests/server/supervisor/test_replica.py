"""A replica as a child process: what it is given, what is heard of it, and that it never outlives its end."""

import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from common.address import Address
from server.supervisor import replica as replica_module
from server.supervisor.replica import Heard, Launch, ReplicaProcess, read_page
from tests.server.supervisor.stub import HERE, launch

PATIENCE_S = 30.0

Started = Callable[..., ReplicaProcess]


@pytest.fixture
def started() -> Iterator[Started]:
    running: list[ReplicaProcess] = []

    def start(given: Launch, own_host: Callable[[], str] | None = None) -> ReplicaProcess:
        running.append(ReplicaProcess(given, own_host))
        return running[-1]

    yield start
    for each in running:
        each.close()
    assert not [child for child in psutil.Process().children() if "stubbed_serve.py" in " ".join(child.cmdline())]


def heard(replica: ReplicaProcess, until: Callable[[Heard], object]) -> Heard:
    """All lines up to then, and what else there was to know."""
    lines: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        news = replica.poll()
        lines += news.lines
        if until(news):
            return Heard(tuple(lines), news.address, news.code)
        time.sleep(0.01)
    raise AssertionError(lines)


def serves(news: Heard) -> bool:
    return news.address is not None


def has_ended(news: Heard) -> bool:
    return news.code is not None


def test_it_serves_tells_its_metrics_and_drains(started: Started) -> None:
    replica = started(launch("--target", "demo"))
    ready = heard(replica, serves)
    assert ready.address == HERE
    assert "--target demo --listen 127.0.0.1:7070 --metrics 127.0.0.1:0 --fleet-list " in ready.lines[0]
    assert "vllm:num_requests_waiting" in replica.page()
    replica.drain()
    ended = heard(replica, has_ended)
    assert (ended.lines, ended.code) == (("summary {}",), 0)


def test_its_page_is_read_past_a_proxy_of_the_environment(started: Started, unreachable_proxy: None) -> None:
    replica = started(launch())
    heard(replica, serves)
    assert "vllm:num_requests_waiting" in replica.page()


def test_the_list_of_replicas_is_a_file_that_it_was_given(started: Started) -> None:
    replica = started(launch())
    (line,) = heard(replica, serves).lines
    listing = line.partition("--fleet-list ")[2].partition(";")[0]
    assert replica.tell([HERE, Address("::1", 7071)])
    with open(listing, encoding="utf-8") as file:
        assert file.read() == "127.0.0.1:7070\n[::1]:7071\n"
    Path(listing).with_suffix(".new").mkdir()
    assert not replica.tell([HERE]), "it could not be written"


@pytest.mark.parametrize(
    ("listen", "advertised", "told", "address"),
    [
        (HERE, None, "", HERE),
        (Address("0.0.0.0", 7070), None, " --advertise 192.0.2.7:7070", Address("192.0.2.7", 7070)),
        (HERE, Address("lb", 443), " --advertise lb:443", Address("lb", 443)),
    ],
)
def test_with_a_store_it_says_itself_where_clients_dial_it(
    listen: Address, advertised: Address | None, told: str, address: Address, started: Started
) -> None:
    given = launch(listen=listen, advertised=advertised, store="redis://:secret@store/0")
    ready = heard(started(given, lambda: "192.0.2.7"), serves)
    assert ready.address == address
    assert ready.lines == (f"given serve --listen {listen} --metrics 127.0.0.1:0{told}; store redis://:secret@store/0",)


def test_what_could_not_begin_tells_why(started: Started) -> None:
    ended = heard(started(launch("fail")), has_ended)
    assert (ended.lines, ended.address, ended.code) == (("outriderd: there is no such target",), None, 2)


def test_one_that_is_stopped_is_killed_all_the_same(started: Started) -> None:
    replica = started(launch())
    heard(replica, serves)
    (child,) = (each for each in psutil.Process().children() if "stubbed_serve.py" in " ".join(each.cmdline()))
    child.suspend()
    replica.kill()
    assert heard(replica, has_ended).code == -signal.SIGKILL


def test_one_that_does_not_drain_is_killed(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_module, "_LAST_WORDS_S", 0.1)
    replica = started(launch("deaf"))
    heard(replica, serves)
    replica.drain()
    assert heard(replica, has_ended).code == -signal.SIGKILL


def test_a_page_that_nobody_fills_is_told_from_one_that_cannot_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_module, "_SCRAPE_S", 0.3)
    monkeypatch.setattr(replica_module, "_SILENT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/metrics"
        with pytest.raises(TimeoutError):
            read_page(url)
    monkeypatch.setattr(replica_module, "_SILENT_S", PATIENCE_S)
    with pytest.raises(OSError, match="cannot be asked") as refused:
        read_page(url)
    assert not isinstance(refused.value, TimeoutError)
