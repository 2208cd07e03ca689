"""`capacity-timed`: the simulated speed of 1 to 16 clients on two replicas, beside that in real time.

No model is loaded: acceptance is stated, and passes and levels sleep. So the simulation of engines, sessions, streams
and drafting loops is what is compared, and not the processor of this machine.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from client.stats import per
from common.stated_costs import STATED, overrun_faults
from netem.experiments.capacity.acceptance import stated_recording
from netem.experiments.capacity.measure import EAGER, PLAIN
from netem.experiments.capacity.replay import Replay
from netem.experiments.capacity.replica import ReplicaSystem, answer_in_turn
from netem.experiments.capacity.report import AGREEMENT
from netem.experiments.capacity.wall_clock import time_in_turn
from netem.experiments.experiment import Advance, Report, Request
from netem.links.profile import Direction, LinkProfile

REPLICAS = 2
CLIENTS, QUICK_CLIENTS = (1, 2, 4, 8, 16), (1, 4, 16)
SYSTEMS = (PLAIN, EAGER)
SLOWER = 40.0
MOST_LATE_S = 0.05 * SLOWER * STATED.draft_seconds
"""Of timers, in the mean: a twentieth of a level, the shortest time that anything here takes."""

APART_S = 0.27
"""From one client's question to the next one's. Of questions that come at once a server in real time puts one into its
first pass and the others into the next, and simulated ones come in one pass; these come at times that differ from the
ends of passes, of 1.2 s and more, by more than a timer is late."""

ANSWER_TOKENS, PROMPT_TOKENS, LEAST_ANSWERS = 16, 40, 2
_LOOPBACK = LinkProfile("loopback", "this machine", up=Direction(), down=Direction())


@dataclass(frozen=True, slots=True)
class Compared:
    """Tokens per second of a client; `overrun`: the share of real passes that took longer than they should;
    `reconnects`: streams that real clients gave up; `late_s`: by how much timers came late in the mean."""

    system: str
    clients: int
    real: float
    simulated: float
    overrun: float
    reconnects: int
    late_s: float

    @property
    def ratio(self) -> float:
        return per(self.simulated, self.real)


async def measure(request: Request, advance: Advance) -> Report:
    numbers = QUICK_CLIENTS if request.quick else CLIENTS
    points = [(replace(system, slower=SLOWER), clients) for system in SYSTEMS for clients in numbers]
    compared = []
    for done, (system, clients) in enumerate(points):
        advance(f"{system.name}, {clients} clients", done / len(points))
        compared.append(await compare(system, clients, request.seed))
    return make_report(compared)


async def compare(system: ReplicaSystem, clients: int, seed: int) -> Compared:
    """Each client asks once, and one that is alone twice: a single pass more is a tenth of a short answer."""
    answers = max(clients, LEAST_ANSWERS)
    replay = Replay(stated_recording(answers, ANSWER_TOKENS, PROMPT_TOKENS, seed))
    real = await time_in_turn(replay, system, clients, answers, REPLICAS, APART_S)
    # In a thread: the virtual clock has an event loop of its own.
    simulated = await asyncio.to_thread(answer_in_turn, replay, system, _LOOPBACK, clients, answers, REPLICAS, APART_S)
    speeds = (real.tokens_per_client_second, simulated)
    return Compared(system.name, clients, *speeds, real.overrun_share, real.reconnects, real.late_s)


def make_report(compared: Sequence[Compared]) -> Report:
    overruns = {f"{each.system} with {each.clients} clients": each.overrun for each in compared}
    costs = STATED.times(SLOWER)
    return Report(
        title=f"Simulated speed beside real time, clients on {REPLICAS} replicas",
        headings=(
            *("system", "clients", "tokens/s, real time", "tokens/s, simulated", "ratio"),
            *("passes too long", "reconnects", "late"),
        ),
        rows=[
            [
                each.system,
                str(each.clients),
                f"{each.real:.3f}",
                f"{each.simulated:.3f}",
                f"{each.ratio:.3f}",
                f"{each.overrun:.1%}",
                str(each.reconnects),
                f"{1000 * each.late_s:.0f} ms",
            ]
            for each in compared
        ],
        remarks=(
            f"Tokens per second of a client. Real time: {REPLICAS} real engines and their clients in one process, gRPC "
            "over loopback, threads that sleep for the stated costs. Simulated: the same on the virtual clock. At most "
            f"{AGREEMENT:.0%} apart is asked for.",
            f"A pass takes {costs.pass_ms / 1000:g} s and a level {costs.draft_seconds:g} s, {SLOWER:g} times what "
            "other experiments state, so that the processor, which other programs share, is not what limits a run. "
            "Where it is elsewhere for longer than a probe is waited for, a client gives its stream up and reconnects.",
            f"Each client asks once, one that is alone {LEAST_ANSWERS} times, for {ANSWER_TOKENS} tokens behind a "
            f"prompt of {PROMPT_TOKENS}; questions first come {APART_S:g} s apart. No model is loaded: "
            "77% of tokens are the draft's likeliest candidate and 95% among eight, as the demo's moa was recorded; "
            "`capacity` compares that with the models.",
        ),
        results={
            "replicas": REPLICAS,
            "slower": SLOWER,
            "compared": [asdict(each) | {"ratio": each.ratio} for each in compared],
        },
        faults=[
            *(
                f"with {each.clients} clients and {each.system} the simulated speed is {each.ratio:.2f} of the real one"
                for each in compared
                if abs(each.ratio - 1) > AGREEMENT
            ),
            *overrun_faults(overruns),
            *(
                f"with {each.clients} clients and {each.system} timers came {1000 * each.late_s:.0f} ms late in the "
                f"mean, and at most {1000 * MOST_LATE_S:.0f} ms may be; run it on a processor that nobody else uses"
                for each in compared
                if each.late_s > MOST_LATE_S
            ),
        ],
    )
