"""`capacity`: how many clients a GPU serves, with the real policies and recorded acceptance."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

from client.drafting.policies import CLOUD, STREAM
from netem.experiments.capacity.acceptance import Recording
from netem.experiments.capacity.real import Prompt, record, tokens_per_client_second
from netem.experiments.capacity.replay import Replay
from netem.experiments.capacity.replica import ReplicaLoad, ReplicaRun, ReplicaSystem, answer_in_turn, run_replica
from netem.experiments.capacity.report import Capacity, Checked, make_report
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.speed import systems
from netem.experiments.speed.systems import System
from netem.experiments.speed.testbed import Testbed, open_testbed
from netem.experiments.steps import Steps
from netem.links.profiles import find_profile

LINKS = ("lan", "5g", "4g", "lte-drive", "cell-edge")
RECORDED_OVER = "5g"

_BEGIN_S = 0.02  # between two clients' first questions, so that their prompts do not fill all passes
_LEAST_BEGIN_S = 0.6

PLAIN = ReplicaSystem("plain decoding", CLOUD, "eager", server_drafting=False)
COLOCATED = ReplicaSystem("server-side speculation", CLOUD, "colocated", server_drafting=True)
EAGER = ReplicaSystem("eager", STREAM, "eager", server_drafting=False)
PATIENT = ReplicaSystem("patient", STREAM, "patient", server_drafting=False)
AUTO = ReplicaSystem("auto", STREAM, "auto", server_drafting=True)

_REAL: Mapping[str, System] = {
    PLAIN.name: systems.CLOUD_DECODING,
    EAGER.name: systems.EAGER,
    AUTO.name: systems.AUTO,
}


@dataclass(frozen=True)
class CapacityWorkload:
    """prompts: of each category, from which acceptance is recorded, with answers of at most `recorded_tokens`, strung
    together to `answer_tokens`. at_once: clients of a replica that are being answered, by system, each for so many
    seconds; `checked`: numbers of clients on two replicas for which the real models run too."""

    prompts: int
    recorded_tokens: int
    answer_tokens: int
    at_once: Mapping[ReplicaSystem, Mapping[int, float]]
    checked: Sequence[tuple[ReplicaSystem, int]]


_PLAIN = {5: 12.0, 15: 6.0, 60: 4.0, 120: 3.0, 250: 3.0, 320: 3.0, 380: 3.0}
_DRAFTING = {5: 12.0, 15: 6.0, 60: 3.0, 120: 2.0, 250: 2.0, 380: 2.0}
FULL = CapacityWorkload(
    prompts=8,
    recorded_tokens=96,
    answer_tokens=192,
    at_once={PLAIN: _PLAIN, COLOCATED: _PLAIN, EAGER: _DRAFTING, PATIENT: _DRAFTING, AUTO: _DRAFTING},
    checked=[(system, clients) for system in (PLAIN, EAGER, AUTO) for clients in (2, 4, 8, 16)],
)
_BRIEF = {5: 2.5, 15: 1.5, 60: 0.8}
QUICK = CapacityWorkload(
    prompts=2,
    recorded_tokens=64,
    answer_tokens=192,
    at_once={
        PLAIN: {5: 4.0, 15: 3.0, 60: 2.0, 240: 1.0},
        COLOCATED: {5: 4.0, 15: 3.0, 60: 1.5},
        EAGER: _BRIEF,
        PATIENT: {5: 2.5, 15: 1.5},
        AUTO: _BRIEF,
    },
    checked=[(PLAIN, 16), (EAGER, 2), (EAGER, 16)],
)
"""Numbers of clients at once are multiples of the number of links, or nearly, so that all links have as many."""


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL
    # In threads: the virtual clock has an event loop of its own.
    return await asyncio.to_thread(_measure, workload, request, advance)


def _measure(workload: CapacityWorkload, request: Request, advance: Advance) -> Report:
    advance("loading", 0.0)
    testbed = open_testbed(request, workload.prompts)
    prompts = by_turns(testbed.prompts)
    advance("recording acceptance", 0.01)
    recorded = partial(record, testbed, find_profile(RECORDED_OVER), prompts, workload.recorded_tokens)
    recording = request.steps.once("recording", recorded)
    advance("real models", 0.1)
    checked = [
        request.steps.once(
            f"{system.name}, {clients}", partial(_check, testbed, recording, prompts, workload, system, clients)
        )
        for system, clients in workload.checked
    ]
    advance("recorded acceptance", 0.4)
    runs = run_systems(recording.strung(workload.answer_tokens), workload.at_once, advance, request.steps)
    return make_report(Capacity(recording, workload.answer_tokens, checked, runs, LINKS, request.seed))


def by_turns(prompts: Mapping[str, Sequence[Prompt]]) -> list[Prompt]:
    """One of each category after another; some may have fewer."""
    return [prompt for turn in zip_longest(*prompts.values()) for prompt in turn if prompt is not None]


def run_systems(
    recording: Recording, at_once: Mapping[ReplicaSystem, Mapping[int, float]], advance: Advance, steps: Steps
) -> dict[ReplicaSystem, dict[int, ReplicaRun]]:
    """One replica, with every system and number of clients."""
    replay, links = Replay(recording), [find_profile(name) for name in LINKS]
    points = [(system, clients, seconds) for system, each in at_once.items() for clients, seconds in each.items()]
    work = sum(clients * seconds for _, clients, seconds in points)
    runs: dict[ReplicaSystem, dict[int, ReplicaRun]] = {system: {} for system in at_once}
    done = 0.0
    for system, clients, seconds in points:
        step = f"{system.name}, {clients} at once"
        advance(step, 0.4 + 0.6 * done / work)
        load = ReplicaLoad(clients, links, seconds, begin_s=max(_LEAST_BEGIN_S, _BEGIN_S * clients))
        runs[system][clients] = steps.once(step, partial(run_replica, replay, system, load))
        done += clients * seconds
    return runs


def _check(
    testbed: Testbed,
    recording: Recording,
    prompts: Sequence[Sequence[int]],
    workload: CapacityWorkload,
    system: ReplicaSystem,
    clients: int,
) -> Checked:
    """The speed with the real models and with recorded acceptance, of one of two replicas that share the clients."""
    link, share = find_profile(RECORDED_OVER), clients // 2
    real = tokens_per_client_second(testbed, link, _REAL[system.name], share, prompts, workload.recorded_tokens)
    simulated = answer_in_turn(Replay(recording), system, link, share, len(prompts))
    return Checked(system.name, clients, real, simulated)
