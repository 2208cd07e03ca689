"""The table, remarks and plot of `capacity`. May know what is compared; it runs nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from client.stats import per
from netem.experiments.capacity.acceptance import Recording
from netem.experiments.capacity.fleet import HOURS, Habits, answered_at_once, between, fullest
from netem.experiments.capacity.replica import PASS_TOKENS, ReplicaRun, ReplicaSystem
from netem.experiments.capacity.rounds import best_round
from netem.experiments.experiment import Report
from netem.experiments.speed.costs import OVERHEADS, VIRTUAL_COSTS
from netem.links.profiles import find_profile
from netem.virtual.server import PACE

ALL_LINKS = "all"
_STEADY = "lan"
BATCHED = "batched rounds, computed"
GAP_S = 0.05
SPEED = 50.0
"""Tokens per second of a client that plain decoding never reaches with the stated costs."""

AGREEMENT = 0.1
"""How far the simulated speed may be from that with the real models, as a share of it."""

FLEET_CLIENTS = 10_000
REPLICAS = (1, 2, 4, 8, 16, 32, 64)
PAUSE_S = 30.0


@dataclass(frozen=True, slots=True)
class Checked:
    """Tokens per second of a client, with so many clients on two replicas."""

    system: str
    clients: int
    real: float
    simulated: float

    @property
    def ratio(self) -> float:
        return per(self.simulated, self.real)


@dataclass(frozen=True)
class Capacity:
    """runs: of one replica, by system and by the number of clients that are being answered at once."""

    recording: Recording
    answer_tokens: int
    checked: Sequence[Checked]
    runs: Mapping[ReplicaSystem, Mapping[int, ReplicaRun]]
    links: Sequence[str]
    seed: int


@dataclass(frozen=True, slots=True)
class Point:
    """One system with so many clients at once, on one link or on all: None where nobody measured it."""

    tokens_s_client: float | None
    gap_p95_s: float | None


Points = Mapping[str, Mapping[str, Mapping[int, Point]]]
"""By system, link and the number of clients at once."""


def make_report(found: Capacity) -> Report:
    points = _points(found)
    drafting = {system.name: system.server_drafting for system in found.runs} | {BATCHED: True}
    fleet = _fleet(found, points, drafting)
    faults = [
        f"with {each.clients} clients and {each.system} the simulated speed is {each.ratio:.2f} of the real one"
        for each in found.checked
        if abs(each.ratio - 1) > AGREEMENT
    ]
    return Report(
        title="Clients of one GPU, and of a fleet, by simulation",
        headings=(
            *("system", "server drafts", "clients at once"),
            *(f"tokens/s, {link}" for link in found.links),
            *(f"gap p95, {link}" for link in found.links),
        ),
        rows=[
            [
                system,
                "yes" if drafting[system] else "no",
                str(clients),
                *(_number(by_link[link][clients].tokens_s_client) for link in found.links),
                *(_ms(by_link[link][clients].gap_p95_s) for link in found.links),
            ]
            for system, by_link in points.items()
            for clients in by_link[ALL_LINKS]
        ],
        remarks=_remarks(found, points, fleet),
        results={
            "rows": [*_rows(points, drafting), *fleet],
            "most_clients": _most_clients(found, points),
            "checked": [asdict(each) | {"ratio": each.ratio} for each in found.checked],
            "recording": found.recording.as_dict(),
            "stated_costs": VIRTUAL_COSTS,
            "clock": "virtual",
            "links": [asdict(find_profile(link)) for link in found.links],
            "pass_tokens": PASS_TOKENS,
            "answer_tokens": found.answer_tokens,
            "pause_seconds": PAUSE_S,
            "hours": HOURS,
            "server": {
                system.name: {clients: run.counters.summary() for clients, run in by_clients.items()}
                for system, by_clients in found.runs.items()
            },
            "refused": {
                system.name: {clients: run.refused for clients, run in by_clients.items()}
                for system, by_clients in found.runs.items()
            },
        },
        faults=faults,
    )


def most(values: Mapping[int, float], least: float) -> tuple[float, bool] | None:
    """The most clients at once for which the value is at least `least`, linear between measured numbers; and whether
    only the largest measured number bounds it. None where nothing was measured."""
    clients = sorted(values)
    if not clients:
        return None
    if values[clients[0]] < least:
        return 0.0, False
    for fewer, more in pairwise(clients):
        if values[more] < least:
            return fewer + (more - fewer) * (values[fewer] - least) / (values[fewer] - values[more]), False
    return float(clients[-1]), True


def _points(found: Capacity) -> dict[str, dict[str, dict[int, Point]]]:
    points: dict[str, dict[str, dict[int, Point]]] = {}
    for system, by_clients in found.runs.items():
        points[system.name] = {
            link: {
                clients: Point(seen.tokens_per_client_second, seen.gap_p95_s) if seen.gaps else Point(None, None)
                for clients, run in by_clients.items()
                for seen in [run.whole if link == ALL_LINKS else run.links[link]]
            }
            for link in (ALL_LINKS, *found.links)
        }
    numbers = sorted({clients for by_clients in found.runs.values() for clients in by_clients})
    strung = found.recording.strung(found.answer_tokens)
    rounds = {clients: best_round(strung, PACE, clients) for clients in numbers}
    # What the links' jitter makes of its gaps was not computed.
    points[BATCHED] = {
        link: {
            clients: Point(each.tokens_per_second, each.seconds if link == _STEADY else None)
            for clients, each in rounds.items()
        }
        for link in (ALL_LINKS, *found.links)
    }
    return points


def _rows(points: Points, drafting: Mapping[str, bool]) -> list[dict[str, Any]]:
    return [
        _row(clients, 1, system, drafting[system], point, link) | {"asking": "always"}
        for system, by_link in points.items()
        for link, by_clients in by_link.items()
        for clients, point in by_clients.items()
    ]


def _row(clients: int, replicas: int, system: str, drafts: bool, point: Point, link: str) -> dict[str, Any]:
    return {
        "clients": clients,
        "replicas": replicas,
        "system": system,
        "server_drafting": drafts,
        "tokens_s_client": point.tokens_s_client,
        "gap_p95_ms": None if point.gap_p95_s is None else 1000 * point.gap_p95_s,
        "link": link,
    }


def _most_clients(found: Capacity, points: Points) -> dict[str, Any]:
    """By system and link: at a gap of at most GAP_S, and at a speed of at least SPEED."""
    return {
        system: {
            link: {
                "gap": most({n: -p.gap_p95_s for n, p in by_clients.items() if p.gap_p95_s is not None}, -GAP_S),
                "speed": most(
                    {n: p.tokens_s_client for n, p in by_clients.items() if p.tokens_s_client is not None}, SPEED
                ),
            }
            for link, by_clients in by_link.items()
        }
        for system, by_link in points.items()
    }


def _fleet(found: Capacity, points: Points, drafting: Mapping[str, bool]) -> list[dict[str, Any]]:
    """FLEET_CLIENTS in the busiest and the quietest hour, and in the busiest one without one of the replicas."""
    habits = Habits(PAUSE_S, found.answer_tokens)
    rows = []
    for system, by_link in points.items():
        speeds = {n: p.tokens_s_client for n, p in by_link[ALL_LINKS].items() if p.tokens_s_client is not None}
        gaps = {n: p.gap_p95_s for n, p in by_link[ALL_LINKS].items() if p.gap_p95_s is not None}

        def speed(at: float, speeds: Mapping[int, float] = speeds) -> float:
            # Beyond what was measured, a replica gives all of its clients together no more than before.
            known = between(speeds, at)
            return speeds[max(speeds)] * max(speeds) / at if known is None else known

        for replicas in REPLICAS:
            for hour, share, failed in (
                ("busiest", max(HOURS), 0),
                ("busiest", max(HOURS), 1),
                ("quietest", min(HOURS), 0),
            ):
                left = replicas - failed
                if not left:
                    continue
                at_once = answered_at_once(FLEET_CLIENTS * share / left, speed, habits)
                over = at_once > max(speeds)
                load = fullest(at_once, left, found.seed) if not over else at_once
                point = (
                    Point(None, None) if over else Point(between(speeds, load), between(gaps, load) if gaps else None)
                )
                rows.append(
                    _row(FLEET_CLIENTS, replicas, system, drafting[system], point, ALL_LINKS)
                    | {"asking": hour, "failed": failed, "at_once_of_the_fullest": load}
                )
    return rows


def _remarks(found: Capacity, points: Points, fleet: Sequence[Mapping[str, Any]]) -> list[str]:
    best = _most_clients(found, points)
    recorded = found.recording.as_dict()
    rounds = best_round(found.recording.strung(found.answer_tokens), PACE, min(points[BATCHED][ALL_LINKS]))
    return [
        *(
            f"Most clients at once of one GPU {sentence}: "
            + "; ".join(f"{system} {_bounds(best[system], what, found.links)}" for system in best)
            + "."
            for what, sentence in (
                ("gap", f"at a gap of at most {1000 * GAP_S:g} ms p95"),
                ("speed", f"with {SPEED:g} tokens/s for each"),
            )
        ),
        "Simulated speed over the real models' on the virtual clock, clients on two replicas: "
        + ", ".join(f"{each.system} with {each.clients} {each.ratio:.2f}" for each in found.checked)
        + f". At most {AGREEMENT:.0%} apart is asked for. `capacity-timed` compares with real time.",
        f"{FLEET_CLIENTS} clients that read for {PAUSE_S:g} s after each answer, in the busiest hour: "
        + "; ".join(_of_fleet(system, fleet) for system in points)
        + ".",
        "The real engine, scheduler, sessions, idle policies and drafting loops; acceptance is replayed as it was "
        f"recorded from the demo's moa during {recorded['answers']:.0f} answers of all kinds "
        f"({recorded['tokens']:.0f} tokens): the next token was the likeliest candidate for "
        f"{recorded['coverage_of_1']:.1%} and among the eight likeliest for {recorded['coverage_of_8']:.1%}. Answers "
        f"have {found.answer_tokens} tokens. Draft state's bytes and the work of making it are not charged.",
        "Clients are always being answered, each question over the next of the links; so all links share one server. "
        f"At most {PASS_TOKENS} tokens in a pass, and 384 answers at once.",
        f"'{BATCHED}' is server-side speculation as engines with a batched draft model have it, at its best: a level "
        "costs the same for all sessions as for one, and links and prompts cost nothing; its rounds have "
        f"{rounds.levels} levels for few clients. 'server-side speculation' is measured as this server drafts, for one "
        "session at a time.",
        f"Stated costs: a pass {VIRTUAL_COSTS['pass_ms']:g} ms, or {VIRTUAL_COSTS['token_ms']:g} ms a token where that "
        f"is more; a level {VIRTUAL_COSTS['draft_level_ms']:g} ms on a laptop, "
        f"{VIRTUAL_COSTS['server_level_ms']:.2f} ms on the server, beside the passes; {OVERHEADS}.",
    ]


def _bounds(by_link: Mapping[str, Mapping[str, tuple[float, bool] | None]], what: str, links: Sequence[str]) -> str:
    known = {link: bound for link in links if (bound := by_link[link][what]) is not None}
    return ", ".join(
        f"{'at least ' if is_open else ''}{clients:.0f} ({link})" for link, (clients, is_open) in known.items()
    )


def _of_fleet(system: str, fleet: Sequence[Mapping[str, Any]]) -> str:
    """The fewest replicas for which the fullest one is within what was measured."""
    for row in fleet:
        if row["system"] == system and row["asking"] == "busiest" and not row["failed"] and row["tokens_s_client"]:
            return f"{system} {row['replicas']} replicas, {row['tokens_s_client']:.0f} tokens/s"
    return f"{system} more than was measured"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.0f} ms"
