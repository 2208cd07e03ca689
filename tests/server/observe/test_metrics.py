"""The metrics that Prometheus scrapes, name by name, and the port that serves them."""

import asyncio
import re
import socket
import urllib.request
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from common.address import Address
from common.protocol.errors import MisuseError
from common.protocol.messages import PROTOCOL_VERSION, FinishReason, Open, Settings
from server.events import AnswerFinished, Event, TokensCommitted
from server.observe.metrics import Metrics, read, read_calls
from server.observe.metrics_port import MetricsPort, read_on
from server.security.call_pools import CallKind, CallPools, CallRefusal, CallSlot
from server.sessions.admission import ServingLimits
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import TERMS, Client, one_pass, prompt_of
from tests.server.fake_target import VOCAB, FakeTarget, decode
from tests.server.proposers import knowing

ANY = Address("127.0.0.1", 0)
PAGE = Path(__file__).parents[3] / "docs" / "operating.md"


class Observed:
    """Sessions with metrics, and the values of a scrape of these."""

    def __init__(self, **bounds: int):
        self.registry, self.events = CollectorRegistry(), list[Event]()
        metrics = Metrics(self.registry)
        listener = metrics.listener("a model")

        def on_event(event: Event) -> None:
            self.events.append(event)
            listener(event)

        self.sessions = Sessions(TERMS, ServingLimits(4, 48, **bounds), 2000, on_event=on_event)
        self.now = 0.0
        metrics.add_counted("a model", lambda: read(self.sessions, self.now))
        self.pools = CallPools()
        metrics.add_calls("a model", lambda: read_calls(self.pools))

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, {"model_name": "a model", **labels})


def test_durations_are_those_between_questions_and_commits() -> None:
    seen, fake_target = Observed(), FakeTarget()
    client = Client(seen.sessions, "s")
    client.say(client.session.open(prompt_of(1, 10), Settings(max_new_tokens=3)), now=10.0)
    for now in (10.5, 10.7, 11.1):
        one_pass(seen.sessions, fake_target, now)
        client.hear()
    assert [event for event in seen.events if isinstance(event, TokensCommitted)] == [
        TokensCommitted(1, pytest.approx(0.5), is_first=True),
        TokensCommitted(1, pytest.approx(0.2), is_first=False),
        TokensCommitted(1, pytest.approx(0.4), is_first=False),
    ]
    for name, count, total in (
        ("vllm:time_to_first_token_seconds", 1, 0.5),
        ("vllm:inter_token_latency_seconds", 2, 0.6),
        ("vllm:e2e_request_latency_seconds", 1, 1.1),
    ):
        assert seen.value(f"{name}_count") == count
        assert seen.value(f"{name}_sum") == pytest.approx(total)
    assert seen.value("vllm:inter_token_latency_seconds_bucket", le="0.3") == 1
    (finished,) = [event for event in seen.events if isinstance(event, AnswerFinished)]
    assert (finished.reason, finished.prompt_tokens, finished.tokens) == (FinishReason.LENGTH, 10, 3)
    assert (finished.passes, finished.seconds) == (3, pytest.approx(1.1))


def test_the_rest_of_an_answer_that_another_server_began_has_no_first_token() -> None:
    """And says at least how long such an answer is: whoever asks next is admitted by that."""
    seen, fake_target, prompt = Observed(), FakeTarget(), prompt_of(2, 10)
    client = Client(seen.sessions, "s")
    begun = [*prompt, *decode(prompt, 20)]
    client.say(Open(PROTOCOL_VERSION, "f", "the session's name", 0, tuple(begun), len(prompt), Settings(22)), now=10.0)
    for now in (10.5, 10.7):
        one_pass(seen.sessions, fake_target, now)
    committed = [event for event in seen.events if isinstance(event, TokensCommitted)]
    assert [event.is_first for event in committed] == [False, False]
    assert [event.waited for event in committed] == [None, pytest.approx(0.2)]
    assert seen.value("vllm:inter_token_latency_seconds_count") == 1
    assert seen.sessions._accounting.retry_after.answer_tokens == 22
    assert not seen.sessions._accounting.retry_after._is_measured, "the next whole answer counts in full"


def test_tokens_and_nodes_are_counted_as_they_are_judged() -> None:
    seen, fake_target = Observed(), FakeTarget()
    client, prompt = Client(seen.sessions, "s"), prompt_of(1, 30)
    truth = decode(prompt, 20)
    client.open(prompt, Settings(max_new_tokens=20))
    propose = knowing(prompt + truth, 1.0, VOCAB)
    while not client.done:
        one_pass(seen.sessions, fake_target)
        client.hear()
        if not client.done:
            client.draft(propose)
            client.draft(propose)
    counters = seen.sessions.counters
    assert seen.value("vllm:prompt_tokens_total") == 30
    assert seen.value("vllm:generation_tokens_total") == len(truth)
    accepted, drafts = (seen.value(f"vllm:spec_decode_num_{what}_total") or 0 for what in ("accepted_tokens", "drafts"))
    assert 0 < accepted < (seen.value("vllm:spec_decode_num_draft_tokens_total") or 0)
    assert accepted + counters.passes == len(truth), "a pass commits what it accepts and one token more"
    assert 0 < drafts < counters.passes
    assert seen.value("vllm:request_success_total", finished_reason="length") == 1
    assert seen.value("outrider_passes_total") == counters.passes


def test_what_runs_what_waits_and_who_is_turned_away() -> None:
    seen, fake_target = Observed(max_running=2, lease_seconds=60.0), FakeTarget()
    running, waiting, refused = (Client(seen.sessions, name) for name in ("running", "waiting", "refused"))
    running.open(prompt_of(1, 10))
    one_pass(seen.sessions, fake_target)
    waiting.open(prompt_of(2, 10))
    refused.open(prompt_of(3, 10))
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting", "outrider_sessions")
    assert [seen.value(name) for name in names] == [1, 1, 2]
    assert seen.value("vllm:kv_cache_usage_perc") == pytest.approx(10 / 2000)
    assert seen.value("outrider_refused_total", reason="running") == 1
    running.hear()
    running.say(running.session.cancel())
    assert seen.value("vllm:request_success_total", finished_reason="abort") == 1
    seen.sessions.leave(waiting, 0.0)
    assert seen.value("outrider_sessions_on_lease") == 1


def test_a_turn_that_asks_for_no_answer_is_none() -> None:
    seen = Observed()
    client = Client(seen.sessions, "s")
    client.open(prompt_of(1, 10), Settings(max_new_tokens=0))
    client.hear()
    assert client.session.finished is not None
    assert seen.value("vllm:request_success_total", finished_reason="length") == 0
    assert seen.value("vllm:e2e_request_latency_seconds_count") == 0


def test_the_longest_wait_is_that_of_the_oldest_answer_that_no_pass_has_worked_on() -> None:
    seen, fake_target = Observed(), FakeTarget()
    assert seen.value("outrider_longest_wait_seconds") == 0
    first, second = (Client(seen.sessions, name) for name in ("first", "second"))
    first.say(first.session.open(prompt_of(1, 10), Settings(20)), now=2.0)
    second.say(second.session.open(prompt_of(2, 10), Settings(20)), now=5.0)
    seen.now = 9.0
    assert seen.value("outrider_longest_wait_seconds") == 7.0
    one_pass(seen.sessions, fake_target, 9.0)
    assert (seen.value("vllm:num_requests_running"), seen.value("outrider_longest_wait_seconds")) == (2, 0)


def test_an_answer_that_waits_for_its_client_waits_for_no_pass() -> None:
    seen, fake_target = Observed(), FakeTarget()
    client = Client(seen.sessions, "s")
    client.open(prompt_of(1, 10), Settings(max_new_tokens=1))
    one_pass(seen.sessions, fake_target)
    client.hear()
    # Its K/V are here, so that its first pass is one that the idle policy has wait for the client's nodes.
    client.say(client.session.extend(client.session.tree.frontier, (), Settings(20, idle="lockstep")))
    seen.now = 60.0
    assert (seen.value("vllm:num_requests_waiting"), seen.value("outrider_longest_wait_seconds")) == (1, 0)


def test_faults_are_counted_from_zero() -> None:
    """Prometheus sees no increase where a counter comes with its first event."""
    seen = Observed()
    assert seen.value("outrider_failures_total", code="internal") == 0
    assert seen.value("outrider_refused_total", reason="quota_tokens") == 0


def test_each_target_has_its_own_values() -> None:
    registry, fake_target = CollectorRegistry(), FakeTarget()
    metrics = Metrics(registry)
    for model, answers in (("one", 1), ("two", 2)):
        sessions = Sessions(TERMS, ServingLimits(4, 48), 2000, on_event=metrics.listener(model))
        metrics.add_counted(model, partial(read, sessions, 0.0))
        for number in range(answers):
            client = Client(sessions, f"{number}")
            client.say(client.session.open(prompt_of(number, 10), Settings(max_new_tokens=1)))
        one_pass(sessions, fake_target)
    for model, answers in (("one", 1.0), ("two", 2.0)):
        names = ("vllm:generation_tokens_total", "vllm:time_to_first_token_seconds_count")
        assert [registry.get_sample_value(name, {"model_name": model}) for name in names] == [answers, answers]


def test_the_operators_page_lists_every_name_and_no_other() -> None:
    families = {family.name for family in Observed().registry.collect()}
    own = {name for name in families if name.startswith(("vllm:", "outrider_"))}
    listed = re.findall(r"^\| `((?:vllm:|outrider_)[a-z0-9_]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name.removesuffix("_total") for name in listed} == own
    assert len(listed) == len(own)


def test_calls_are_shown_by_kind_and_by_why_they_were_refused() -> None:
    seen = Observed()
    seen.pools.enter(CallSlot(CallKind.FETCH, "a", "", 0.0, lambda call_refusal: None), 0.0)
    for _ in range(2):
        seen.pools.count(CallKind.HEALTH_WATCH, CallRefusal.CONNECTION, 0.0)
    assert seen.value("outrider_calls", kind="fetch") == 1
    assert seen.value("outrider_calls", kind="opening") == 0
    assert seen.value("outrider_calls_refused_total", kind="health_watch", reason="connection") == 2


@pytest.fixture
async def port() -> AsyncIterator[MetricsPort]:
    registry = CollectorRegistry()
    port = MetricsPort(ANY, registry, insecure=False)
    sessions = Sessions(TERMS, ServingLimits(4, 48), 2000)
    Metrics(registry).add_counted("a model", read_on(asyncio.get_running_loop(), lambda: read(sessions, 0.0)))
    yield port
    await asyncio.to_thread(port.close)


def scrape(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as reply:
        return str(reply.read().decode())


async def test_a_scrape_is_answered_in_prometheus_own_words(port: MetricsPort) -> None:
    families = {family.name for family in text_string_to_metric_families(await asyncio.to_thread(scrape, port.url))}
    assert {"vllm:num_requests_running", "vllm:generation_tokens", "process_resident_memory_bytes"} <= families


async def test_what_is_read_is_read_where_sessions_are_served() -> None:
    loop = asyncio.get_running_loop()
    assert await asyncio.to_thread(read_on(loop, asyncio.get_running_loop)) is loop

    def fail() -> None:
        raise ArithmeticError("it was not foreseen")

    with pytest.raises(ArithmeticError):
        await asyncio.to_thread(read_on(loop, fail))


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "gpu.example.org"])
def test_metrics_are_shown_to_others_only_when_asked(host: str) -> None:
    with pytest.raises(MisuseError, match=f"anybody could read metrics at {host}:9090"):
        MetricsPort(Address(host, 9090), CollectorRegistry(), insecure=False)
    open_to_all = MetricsPort(Address("0.0.0.0", 0), CollectorRegistry(), insecure=True)
    open_to_all.close()


def test_a_port_in_use_is_a_sentence() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = Address("127.0.0.1", other.getsockname()[1])
        with pytest.raises(MisuseError, match=f"{taken} is in use or not this machine's; name another with --metrics"):
            MetricsPort(taken, CollectorRegistry(), insecure=False)
