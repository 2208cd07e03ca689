"""The report of clients on replicas that are killed or replaced: what makes a run invalid, its table and its plot.

It may not know what was done to the replicas: whoever did says so in remarks.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from netem.experiments.experiment import Report
from netem.experiments.service.fair_choice import fair_unevenness, uneven
from netem.experiments.service.replica_clients import ARRIVAL_S, CLIENTS, MAX_NEW_TOKENS, MOST_WAIT_S, Phase

REPLICAS = 3
MOST_UNEVEN = 0.2
"""The load of a replica may differ from the mean by so much of it, while none is killed."""

CALM, KILLING = "calm", "a replica killed every 20 s"
KILL_INTERVAL_S = 20.0
HEADINGS = (
    *("phase", "seconds", "answers", "failed", "different"),
    *("moved with their replica", "moved without cause", "reconnected without cause"),
)


def report_of(
    title: str,
    phases: Mapping[str, Phase],
    kills: int,
    planned: int,
    remarks: Sequence[str],
    results: Mapping[str, Any],
) -> Report:
    """`remarks`: what was done to the replicas, of which as many were to be killed as `planned`. One of the phases is
    CALM."""
    rows, faults = [], list[str]()
    for name, phase in phases.items():
        back = sum(each.came_back for each in phase.without_cause)
        counts = (phase.answers, len(phase.failures), phase.different, phase.moved)
        rows.append([name, f"{phase.seconds:.0f}", *map(str, counts), str(len(phase.without_cause) - back), str(back)])
        faults += [f"{name}: {failure}" for failure in phase.failures[:10]]
        if phase.answers < CLIENTS:
            faults.append(f"{name}: {phase.answers} answers for {CLIENTS} clients")
        if phase.longest_wait_s > MOST_WAIT_S:
            faults.append(
                f"{name}: a client waited {phase.longest_wait_s:.0f} s for an answer; {MOST_WAIT_S:g} s may be"
            )
        if phase.different:
            faults.append(f"{name}: {phase.different} answers differ")
        if phase.without_cause:
            faults.append(f"{name}: {_without_cause(phase)}")
    spread, calm = uneven(phases[CALM].held), phases[CALM].answers
    fair = fair_unevenness(CLIENTS, REPLICAS, max(1, calm), 0)
    if spread > MOST_UNEVEN:
        faults.append(f"the load of a replica differs by {spread:.0%} from the mean; {MOST_UNEVEN:.0%} may be")
    if kills < planned:
        faults.append(f"{kills} replicas were killed where {planned} were to be: others did not serve again in time")
    return Report(
        title=title,
        headings=HEADINGS,
        rows=rows,
        remarks=(
            f"{CLIENTS} clients on {REPLICAS} replicas: each connects, asks once for at most {MAX_NEW_TOKENS} tokens "
            "and comes back as a new client, which takes the less loaded of two replicas. They first come "
            f"{ARRIVAL_S:g} s apart.",
            f"Mean sessions of a replica in the calm phase differ from the mean of all by at most {spread:.1%}. Over "
            f"{calm} answers the choice of the less loaded of two gives at most {fair:.1%} in 95 of 100 simulated runs "
            "in which every client sees the loads as they are.",
            f"No client waited longer for an answer than {max(each.longest_wait_s for each in phases.values()):.0f} s.",
            *remarks,
            "'different': from what one replica answers while nobody else asks. 'moved with their replica': streams "
            "that answers lost because their replica was away, of which one may lose several. 'without cause': "
            "although it was up all the time; 'moved' went on at another replica, 'reconnected' came back to its own.",
        ),
        results={
            **results,
            "kills": kills,
            "uneven": spread,
            "uneven_by_fair_choice": fair,
            "phases": {name: asdict(phase) | {"held": len(phase.held)} for name, phase in phases.items()},
        },
        faults=faults,
    )


def _without_cause(phase: Phase) -> str:
    found = Counter((each.came_back, each.cause) for each in phase.without_cause)
    causes = (f"{count} {'came back' if back else 'moved'} ({cause})" for (back, cause), count in found.most_common())
    return f"answers whose replica was up lost their stream: {', '.join(causes)}"
