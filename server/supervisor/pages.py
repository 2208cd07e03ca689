"""The metrics of all replicas as one page, each with the label of its replica, and the load that they show. Pure.

It may not know how pages are fetched or served.
"""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from server.refusal import RefusalReason
from server.supervisor.plan import State
from server.supervisor.scaling import Load

_REPLICA = "replica"
_RUNNING, _WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
_LONGEST_WAIT = "outrider_longest_wait_seconds"
_REFUSED = "outrider_refused_total"

_WANT_OF_ROOM = frozenset((RefusalReason.RUNNING, RefusalReason.SESSIONS, RefusalReason.CACHE, RefusalReason.MEMORY))
"""What one more replica would have taken."""


def parsed(page: str) -> list[Metric]:
    """Raises ValueError for what is no page of metrics."""
    return list(text_string_to_metric_families(page))


def merged(pages: Mapping[int, list[Metric]], states: Mapping[State, int], restarts: Mapping[int, int]) -> bytes:
    """One page, in Prometheus' format: all metrics of the replicas, the number of replicas in each state, and how often
    each was restarted."""
    registry = CollectorRegistry()
    registry.register(_Fleet(pages, states, restarts))
    return generate_latest(registry)


def load_of(pages: Mapping[int, list[Metric]]) -> Load:
    """What all replicas together do."""
    samples = {number: [each for family in page for each in family.samples] for number, page in pages.items()}
    reasons = {reason.value for reason in _WANT_OF_ROOM}
    waits = {number: _values(page, _LONGEST_WAIT) for number, page in samples.items()}
    waiting = {number: round(sum(_values(page, _WAITING))) for number, page in samples.items()}
    refused = (
        each.value
        for page in samples.values()
        for each in page
        if each.name == _REFUSED and each.labels["reason"] in reasons
    )
    return Load(
        running=round(sum(sum(_values(page, _RUNNING)) for page in samples.values())),
        waiting=sum(waiting.values()),
        longest_wait_s=max((each for wait in waits.values() for each in wait), default=0.0),
        waiting_of_unknown_age=sum(count for number, count in waiting.items() if not waits[number]),
        refused=round(sum(refused)),
    )


def _values(samples: list[Sample], name: str) -> list[float]:
    return [sample.value for sample in samples if sample.name == name]


class _Fleet(Collector):
    def __init__(self, pages: Mapping[int, list[Metric]], states: Mapping[State, int], restarts: Mapping[int, int]):
        self._pages = pages
        self._states = states
        self._restarts = restarts

    def collect(self) -> Iterator[Metric]:
        replicas = GaugeMetricFamily("outrider_fleet_replicas", "Replicas of the fleet.", labels=["state"])
        for state, count in self._states.items():
            replicas.add_metric([state.value], count)
        restarted = CounterMetricFamily(
            "outrider_fleet_restarts", "Restarts of replicas that ended by themselves.", labels=[_REPLICA]
        )
        # From zero on, for Prometheus sees no increase where a counter comes with its first event.
        for number in sorted({*self._pages, *self._restarts}):
            restarted.add_metric([str(number)], self._restarts.get(number, 0))
        yield from (replicas, restarted)
        families: dict[str, Metric] = {}
        for number, page in self._pages.items():
            for family in page:
                kept = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                kept.samples += [_labelled(sample, number) for sample in family.samples]
        yield from families.values()


def _labelled(sample: Sample, number: int) -> Sample:
    return sample._replace(labels={_REPLICA: str(number), **sample.labels})
