"""The table, remarks and plot of `load`. May know what is compared; it runs nothing."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from client.stats import per
from netem.experiments.experiment import Report
from netem.experiments.one_device.intervals import Bootstrap
from netem.experiments.speed.costs import VIRTUAL_CLOCK, VIRTUAL_COSTS
from netem.experiments.speed.load_run import LoadRun
from netem.experiments.speed.runs import are_alike, fault_of, latency_in_words, quantile
from netem.experiments.speed.systems import AUTO, CLOUD_DECODING, PATIENT
from netem.links.profiles import find_profile
from netem.virtual.server import PACE

ARRIVING, TOGETHER = "requests/s", "clients"

HEADINGS = (
    "load",
    "answers",
    "system",
    "latency mean / p95",
    "x faster than cloud",
    "tokens/s of a client",
    "x cloud",
    "tokens/s of all",
    "x cloud",
    "tokens per pass-second",
    "x cloud",
    "tokens per pass- or drafting second",
    "sessions per pass",
    "time in passes",
    "server levels/s",
)

JUDGED_CLIENTS = 8
PROMISED = 1.5
"""The least ratio to cloud decoding's tokens per pass-second that patient or auto must reach with so many clients."""


@dataclass(frozen=True, slots=True)
class Load:
    """`amount` requests per second or clients at once; `of` says which."""

    of: str
    amount: float

    def __str__(self) -> str:
        return f"{self.amount:g} {'client' if self == Load(TOGETHER, 1) else self.of}"


LoadRuns = Mapping[Load, Mapping[str, LoadRun]]
"""Runs by load, then by system; cloud decoding is one of them."""


def make_report(runs: LoadRuns, longest: Mapping[str, int], link: str) -> Report:
    different = [load for load, systems in runs.items() if not are_alike(systems.values())]
    promised = gains_with(runs, Load(TOGETHER, JUDGED_CLIENTS))
    kept = max(promised.values(), default=0.0) >= PROMISED
    return Report(
        title=f"One server under load over {link}, on the virtual clock",
        headings=HEADINGS,
        rows=[_row(load, name, run, systems) for load, systems in runs.items() for name, run in systems.items()],
        remarks=(
            *_in_words(promised),
            f"Prompts for code, greedy, answers of at most {longest[ARRIVING]} tokens for Poisson arrivals and "
            f"{longest[TOGETHER]} for clients that ask one prompt after the other; every client has a link of its own. "
            "Arrivals, prompts and links are drawn once for a load, the same for all systems, and arrivals of other "
            "rates are the same ones, closer together or farther apart. Other numbers of clients have other prompts, "
            "so that rows of one load are paired and rows of several are not. Answers identical across "
            f"systems: {'NO' if different else 'yes'}.",
            VIRTUAL_CLOCK,
            "Latency is from asking to the answer's end; of fewer than 20 answers no p95 is told. 'x faster' divides "
            "cloud decoding's mean latency at the same load by this one, with a 95% interval over the answers of "
            "Poisson arrivals, resampled in pairs, which knows nothing of what waits for what; every 'x cloud' "
            "divides the figure before it by cloud decoding's. Tokens/s of a client are tokens over the sum of "
            "latencies; of all, tokens over the time from the first question to the end of the last answer, in "
            "which arrivals set the pace, or the slowest client.",
            "Pass-seconds are what the target's passes cost, prompts included. What the server drafts is work beside "
            f"them: 'server levels/s', at most {1 / PACE.per_level:.0f}, by one drafter for all sessions; 'pass- or "
            "drafting second' counts a second of it like one of a pass.",
        ),
        results={
            "stated_costs": VIRTUAL_COSTS,
            "clock": "virtual",
            "link": asdict(find_profile(link)),
            "identical": not different,
            "promised": {
                "clients": JUDGED_CLIENTS,
                "least": PROMISED,
                "measured": promised,
                "kept": kept,
            },
            "loads": [
                {
                    "of": load.of,
                    "amount": load.amount,
                    "systems": {name: run.as_dict() for name, run in each.items()},
                }
                for load, each in runs.items()
            ],
        },
        faults=[
            *(f"the answers differ between systems at {load}, which must never happen" for load in different),
            *_unsound(runs),
            *(["fewer tokens per pass-second than promised"] if promised and not kept else []),
        ],
    )


def gains_with(runs: LoadRuns, load: Load) -> dict[str, float]:
    """Tokens per pass-second of patient and auto, divided by cloud decoding's; empty where that load was not run."""
    systems = runs.get(load, {})
    if not systems:
        return {}
    cloud = systems[CLOUD_DECODING.name]
    return {
        system.name: per(systems[system.name].tokens_per_pass_second, cloud.tokens_per_pass_second)
        for system in (PATIENT, AUTO)
    }


def _in_words(gains: Mapping[str, float]) -> list[str]:
    if not gains:
        return []
    measured = " and ".join(f"{gain:.2f} for {name}" for name, gain in gains.items())
    kept = "kept" if max(gains.values()) >= PROMISED else "NOT kept"
    return [
        f"Promised with {JUDGED_CLIENTS} clients: patient or auto commit at least {PROMISED:g} times cloud decoding's "
        f"tokens per pass-second. Measured: {measured}; {kept}."
    ]


def _unsound(runs: LoadRuns) -> list[str]:
    return [
        f"at {load}, with {name}: {fault}"
        for load, systems in runs.items()
        for name, run in systems.items()
        for timed in run.answers
        if (fault := fault_of(timed.answer))
    ]


def _faster(load: Load, run: LoadRun, cloud: LoadRun) -> str:
    """The ratio of mean latencies, with an interval where answers are many enough to be resampled."""
    if load.of != ARRIVING:
        return f"{per(cloud.mean_latency, run.mean_latency):.2f}"
    theirs, ours = ({load.of: [(seconds, 1.0) for seconds in each.latencies]} for each in (cloud, run))
    return str(Bootstrap({load.of: len(run.latencies)}, seed=0).ratio(theirs, ours))


def _row(load: Load, name: str, run: LoadRun, systems: Mapping[str, LoadRun]) -> list[str]:
    cloud = systems[CLOUD_DECODING.name]
    return [
        str(load),
        str(len(run.answers)),
        name,
        latency_in_words(run.mean_latency, quantile(run.latencies, 0.95), len(run.latencies)),
        _faster(load, run, cloud),
        f"{run.tokens_per_client_second:.1f}",
        f"{per(run.tokens_per_client_second, cloud.tokens_per_client_second):.2f}",
        f"{run.tokens_per_second:.0f}",
        f"{per(run.tokens_per_second, cloud.tokens_per_second):.2f}",
        f"{run.tokens_per_pass_second:.0f}",
        f"{per(run.tokens_per_pass_second, cloud.tokens_per_pass_second):.2f}",
        f"{run.tokens_per_work_second:.0f}",
        f"{run.counters.sessions_per_pass:.2f}",
        f"{run.pass_share:.0%}",
        f"{run.levels_per_second:.0f}",
    ]
