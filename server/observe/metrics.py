"""Prometheus metrics: vLLM's names where it has them, `outrider_` before the rest, each with the model's name.

It may not know HTTP, nor how sessions work: it handles events, and reads counters at each scrape.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from common.protocol.messages import FailureCode, FinishReason
from server.events import AnswerFinished, Event, EventListener, TokensCommitted
from server.refusal import RefusalReason
from server.security.call_pools import CallKind, CallPools, CallRefusal
from server.sessions.accounting import AnswerCounts
from server.sessions.sessions import Sessions

_MODEL = "model_name"

# vLLM's own, so that its dashboards fit.
_FIRST_TOKEN_SECONDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_GAP_SECONDS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_ANSWER_SECONDS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)

_VLLM_REASONS = {FinishReason.CANCELLED: "abort"}


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """What a server counts and holds at one moment."""

    counters: Mapping[str, Any]
    sessions: int
    on_lease: int
    answers: AnswerCounts
    slots: int
    held_slots: int
    server_drafters: int


def read(sessions: Sessions, now: float) -> MetricsSnapshot:
    """To be called where sessions are served, with the time on their clock."""
    return MetricsSnapshot(
        counters=sessions.counters.summary(),
        sessions=len(sessions),
        on_lease=sessions.away,
        answers=sessions.count_answers(now),
        slots=sessions.free_slots + sessions.held_slots,
        held_slots=sessions.held_slots,
        server_drafters=sessions.server_drafters,
    )


@dataclass(frozen=True, slots=True)
class CallReading:
    """What calls hold, and which were refused, at one moment."""

    held: Mapping[CallKind, int]
    refused: Mapping[tuple[CallKind, CallRefusal], int]


def read_calls(pools: CallPools) -> CallReading:
    """To be called where calls are served."""
    return CallReading({kind: pools.held(kind) for kind in CallKind}, dict(pools.refused))


class Metrics:
    """Of all targets of a server. Durations are recorded by events; all else is read at each scrape."""

    def __init__(self, registry: CollectorRegistry):
        self._registry = registry
        ProcessCollector(registry=registry)

        def durations(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, [_MODEL], buckets=buckets, registry=registry)

        self._first_token = durations(
            "vllm:time_to_first_token_seconds",
            "From a question to its first token.",
            _FIRST_TOKEN_SECONDS,
        )
        self._gap = durations(
            "vllm:inter_token_latency_seconds", "From one commit of an answer to the next.", _GAP_SECONDS
        )
        self._answer = durations(
            "vllm:e2e_request_latency_seconds", "From a question to the end of its answer.", _ANSWER_SECONDS
        )
        self._counted = _Counted()
        registry.register(self._counted)

    def listener(self, model: str) -> EventListener:
        """Records the durations of that target's events."""
        first_token, gap, answer = (each.labels(model) for each in (self._first_token, self._gap, self._answer))

        def handle_event(event: Event) -> None:
            match event:
                case TokensCommitted(waited=float(seconds)):
                    (first_token if event.is_first else gap).observe(seconds)
                case AnswerFinished():
                    answer.observe(event.seconds)

        return handle_event

    def add_counted(self, model: str, reading: Callable[[], MetricsSnapshot]) -> None:
        """`reading` may be called from any thread."""
        self._counted.readings[model] = reading

    def add_calls(self, model: str, reading: Callable[[], CallReading]) -> None:
        """As `add_counted`. Calls are of no target; their label is for dashboards, which choose by it."""
        self._registry.register(_Calls(model, reading))


class _Counted(Collector):
    def __init__(self) -> None:
        self.readings: dict[str, Callable[[], MetricsSnapshot]] = {}

    def collect(self) -> Iterator[Metric]:
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for model, read_model in self.readings.items():
            reading = read_model()
            for name, text, value in _gauges(reading):
                gauge = families.setdefault(name, GaugeMetricFamily(name, text, labels=[_MODEL]))
                gauge.add_metric([model], value)
            for name, text, value in _totals(reading.counters):
                counter = families.setdefault(name, CounterMetricFamily(name, text, labels=[_MODEL]))
                counter.add_metric([model], value)
            for name, text, label, values in _totals_by(reading.counters):
                counter = families.setdefault(name, CounterMetricFamily(name, text, labels=[_MODEL, label]))
                for key, value in values.items():
                    counter.add_metric([model, key], value)
        yield from families.values()


class _Calls(Collector):
    def __init__(self, model: str, reading: Callable[[], CallReading]):
        self._model = model
        self._reading = reading

    def collect(self) -> Iterator[Metric]:
        reading = self._reading()
        held = GaugeMetricFamily("outrider_calls", "Current calls without a session.", labels=[_MODEL, "kind"])
        for kind, calls in reading.held.items():
            held.add_metric([self._model, kind], calls)
        refused = CounterMetricFamily(
            "outrider_calls_refused", "Calls that were refused or given up.", labels=[_MODEL, "kind", "reason"]
        )
        for (kind, call_refusal), calls in reading.refused.items():
            refused.add_metric([self._model, kind, call_refusal], calls)
        yield from (held, refused)


def _gauges(reading: MetricsSnapshot) -> list[tuple[str, str, float]]:
    return [
        ("vllm:num_requests_running", "Answers that passes work on.", reading.answers.running),
        ("vllm:num_requests_waiting", "Answers that no pass has worked on yet.", reading.answers.waiting),
        (
            "outrider_longest_wait_seconds",
            "The longest current wait for a first pass, in seconds; 0 if no answer waits.",
            reading.answers.longest_wait_s,
        ),
        (
            "vllm:kv_cache_usage_perc",
            "Share of the K/V pool in use, 0 to 1.",
            reading.held_slots / reading.slots,
        ),
        ("outrider_kv_slots", "Tokens that the K/V pool holds.", reading.slots),
        ("outrider_sessions", "Sessions whose streams stand.", reading.sessions),
        ("outrider_sessions_on_lease", "Sessions kept for clients to come back to.", reading.on_lease),
        ("outrider_server_drafters", "Drafters of the server's own that live.", reading.server_drafters),
        (
            "outrider_state_cached_bytes",
            "Draft state that is kept for sessions that share prefixes.",
            reading.counters["state_cached_bytes"],
        ),
    ]


def _totals(counters: Mapping[str, Any]) -> list[tuple[str, str, float]]:
    named = [
        ("vllm:prompt_tokens", "Prompt tokens that came and were not here before.", "prompt_tokens"),
        (
            "vllm:prefix_cache_queries",
            "Prompt tokens that their sessions did not hold when they came.",
            "prefix_cache_queries",
        ),
        (
            "vllm:prefix_cache_hits",
            "Of these, tokens whose K/V came from the prefix cache.",
            "prefix_cache_hits",
        ),
        ("vllm:generation_tokens", "Tokens that were committed.", "committed_tokens"),
        (
            "vllm:num_preemptions",
            "Running answers that failed because others needed their slots; clients may resume them.",
            "preempted",
        ),
        ("vllm:spec_decode_num_drafts", "Trees that were verified.", "drafts"),
        ("vllm:spec_decode_num_draft_tokens", "Nodes that were verified.", "draft_tokens"),
        ("vllm:spec_decode_num_accepted_tokens", "Nodes that were committed.", "accepted_tokens"),
        ("outrider_sessions_opened", "Sessions that were opened; a resumed one counts once.", "sessions"),
        ("outrider_passes", "Passes of the target.", "passes"),
        ("outrider_pass_sessions", "Sessions that took part, summed over passes.", "session_passes"),
        ("outrider_pass_tokens", "Packed tokens, summed over passes.", "packed_tokens"),
        ("outrider_pass_overruns", "Passes that took longer than their stated cost.", "overrun_passes"),
        ("outrider_busy_seconds", "Seconds in which passes were computed.", "busy_seconds"),
        ("outrider_recomputed_tokens", "Tokens computed again although nothing had changed.", "recomputed_tokens"),
        ("outrider_stale_nodes", "Nodes that arrived after their path had been rejected.", "stale_nodes"),
        ("outrider_server_levels", "Levels that were drafted on the server.", "assisted_levels"),
        ("outrider_server_level_overruns", "Of these, those that took longer than stated.", "overrun_levels"),
        ("outrider_state_frames", "Frames of draft state that were sent.", "state_frames"),
        ("outrider_state_seconds", "Seconds in which draft state was made.", "state_seconds"),
    ]
    return [(name, text, counters[key]) for name, text, key in named]


def _totals_by(counters: Mapping[str, Any]) -> list[tuple[str, str, str, Mapping[str, float]]]:
    finished = {reason.value: 0 for reason in FinishReason} | counters["finished"]
    successes = {_VLLM_REASONS.get(FinishReason(reason), reason): count for reason, count in finished.items()}
    # From zero on, for Prometheus sees no increase where a counter comes with its first event.
    failed = {code.value: 0 for code in FailureCode} | counters["failed"]
    refused = {reason.value: 0 for reason in RefusalReason} | counters["refused"]
    return [
        ("vllm:request_success", "Answers that came to their end.", "finished_reason", successes),
        ("outrider_failures", "Streams that ended with a fault of the client or of ours.", "code", failed),
        ("outrider_refused", "Streams that were told to come back later.", "reason", refused),
        ("outrider_state_bytes", "Bytes of draft state that were sent.", "kind", counters["state_bytes"]),
    ]
