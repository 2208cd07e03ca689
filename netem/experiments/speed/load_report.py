"""What `load` measured as a table, remarks and a picture. May know what is compared; it runs nothing."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from client.stats import per
from netem.experiments.experiment import Report
from netem.experiments.speed.costs import VIRTUAL, VIRTUAL_COSTS
from netem.experiments.speed.load_crowd import Crowd
from netem.experiments.speed.runs import are_alike, fault_of, quantile
from netem.experiments.speed.systems import AUTO, CLOUD_DECODING, PATIENT
from netem.links.profiles import find_profile
from netem.virtual.datacenter import PACE

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
"""Times cloud decoding's tokens per pass-second, with so many clients, for patient or auto."""


@dataclass(frozen=True, slots=True)
class Load:
    """So many requests a second, or so many clients at once."""

    of: str
    amount: float

    def __str__(self) -> str:
        return f"{self.amount:g} {'client' if self == Load(TOGETHER, 1) else self.of}"


Crowds = Mapping[Load, Mapping[str, Crowd]]
"""By load, then by system; cloud decoding is one of them."""


def make_report(crowds: Crowds, longest: Mapping[str, int], link: str) -> Report:
    different = [load for load, systems in crowds.items() if not are_alike(systems.values())]
    promised = gains_with(crowds, Load(TOGETHER, JUDGED_CLIENTS))
    return Report(
        title=f"One server under load over {link}, on the virtual clock",
        headings=HEADINGS,
        rows=[_row(load, name, crowd, systems) for load, systems in crowds.items() for name, crowd in systems.items()],
        remarks=(
            *_in_words(promised),
            f"Prompts for code, greedy, answers of at most {longest[ARRIVING]} tokens for Poisson arrivals and "
            f"{longest[TOGETHER]} for clients that ask one prompt after the other; every client has a link of its own. "
            "Arrivals, prompts and links are drawn once for a load, the same for all systems. Answers identical across "
            f"systems: {'NO' if different else 'yes'}.",
            VIRTUAL,
            "Latency is from asking to the answer's end. 'x faster' divides cloud decoding's mean latency at the same "
            "load by this one; every 'x cloud' divides the figure before it by cloud decoding's. Tokens/s of a client "
            "are tokens over the sum of latencies; of all, tokens over the time from the first question to the end of "
            "the last answer, in which arrivals set the pace, or the slowest client.",
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
                "kept": max(promised.values(), default=0.0) >= PROMISED,
            },
            "loads": [
                {
                    "of": load.of,
                    "amount": load.amount,
                    "systems": {name: crowd.as_dict() for name, crowd in each.items()},
                }
                for load, each in crowds.items()
            ],
        },
        draw=lambda axes: _draw(axes, crowds),
        faults=[
            *(f"the answers differ between systems at {load}, which must never happen" for load in different),
            *_unsound(crowds),
        ],
    )


def gains_with(crowds: Crowds, load: Load) -> dict[str, float]:
    """Tokens per pass-second over cloud decoding's, of the systems that promise something; empty without that load."""
    systems = crowds.get(load, {})
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


def _unsound(crowds: Crowds) -> list[str]:
    return [
        f"at {load}, with {name}: {fault}"
        for load, systems in crowds.items()
        for name, crowd in systems.items()
        for timed in crowd.answers
        if (fault := fault_of(timed.answer))
    ]


def _row(load: Load, name: str, crowd: Crowd, systems: Mapping[str, Crowd]) -> list[str]:
    cloud = systems[CLOUD_DECODING.name]
    return [
        str(load),
        str(len(crowd.answers)),
        name,
        f"{crowd.mean_latency:.2f} / {quantile(crowd.latencies, 0.95):.2f} s",
        f"{per(cloud.mean_latency, crowd.mean_latency):.2f}",
        f"{crowd.tokens_per_client_second:.1f}",
        f"{per(crowd.tokens_per_client_second, cloud.tokens_per_client_second):.2f}",
        f"{crowd.tokens_per_second:.0f}",
        f"{per(crowd.tokens_per_second, cloud.tokens_per_second):.2f}",
        f"{crowd.tokens_per_pass_second:.0f}",
        f"{per(crowd.tokens_per_pass_second, cloud.tokens_per_pass_second):.2f}",
        f"{crowd.tokens_per_work_second:.0f}",
        f"{crowd.counters.sessions_per_pass:.2f}",
        f"{crowd.pass_share:.0%}",
        f"{crowd.levels_per_second:.0f}",
    ]


def _draw(axes: Any, crowds: Crowds) -> None:
    """Latency against arrivals, beside tokens per pass-second against clients."""
    axes.set_axis_off()
    left, right = (axes.inset_axes((x, 0, 0.43, 1)) for x in (0, 0.57))
    _draw_lines(left, _of(crowds, ARRIVING), lambda crowd: crowd.mean_latency)
    left.set_ylim(bottom=0)
    left.set_xlabel("requests per second, Poisson")
    left.set_ylabel("mean latency of an answer in seconds")
    _draw_lines(right, _of(crowds, TOGETHER), lambda crowd: crowd.tokens_per_pass_second)
    right.set_yscale("log", base=2)
    right.yaxis.set_major_formatter("{x:g}")
    right.set_xlabel("clients at once")
    right.set_ylabel("tokens of all clients per pass-second")
    lines, names = left.get_legend_handles_labels()
    axes.legend(
        lines, names, frameon=False, fontsize=8, ncols=len(names), loc="upper center", bbox_to_anchor=(0.5, -0.1)
    )


def _of(crowds: Crowds, what: str) -> dict[float, Mapping[str, Crowd]]:
    return {load.amount: systems for load, systems in crowds.items() if load.of == what}


def _draw_lines(axes: Any, by_amount: Mapping[float, Mapping[str, Crowd]], height: Callable[[Crowd], float]) -> None:
    for name in next(iter(by_amount.values())):
        heights = [height(systems[name]) for systems in by_amount.values()]
        axes.plot(list(by_amount), heights, marker="o", markersize=3, label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(by_amount), [f"{amount:g}" for amount in by_amount])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
