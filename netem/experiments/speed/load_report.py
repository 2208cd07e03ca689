"""What `load` measured as a table, remarks and a picture. May know what is compared; it runs nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from client.demo.costs import IN_WORDS, STATED
from client.stats import per
from netem.experiments.experiment import Report
from netem.experiments.speed.load_crowd import Crowd
from netem.experiments.speed.runs import quantile
from netem.experiments.speed.systems import AUTO, CLOUD_DECODING, PATIENT
from netem.links.profiles import find_profile
from netem.virtual.datacenter import PACE

ARRIVING, TOGETHER = "requests/s", "clients"

HEADINGS = (
    "load",
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
        return f"{self.amount:g} {self.of if self.amount != 1 else self.of.replace('clients', 'client')}"


Crowds = Mapping[Load, Mapping[str, Crowd]]
"""By load, then by system; cloud decoding is one of them."""


def make_report(crowds: Crowds, longest: int, link: str) -> Report:
    different = [str(load) for load, systems in crowds.items() if len(set(map(_texts, systems.values()))) > 1]
    broken = _broken_off(crowds)
    promise = gains_with(crowds, Load(TOGETHER, JUDGED_CLIENTS))
    asked = {load.of: [] for load in crowds} | {
        of: [f"{len(next(iter(systems.values())).answers)} at {load.amount:g}" for load, systems in crowds.items() if load.of == of]
        for of in (ARRIVING, TOGETHER)
    }
    return Report(
        title=f"One server under load over {link}, on the virtual clock",
        headings=HEADINGS,
        rows=[_row(load, name, crowd, systems) for load, systems in crowds.items() for name, crowd in systems.items()],
        remarks=(
            *_promise_in_words(promise),
            f"Prompts for code, at most {longest} tokens an answer, greedy; every client has a link of its own. "
            f"Answers identical across systems: {'yes' if not different else 'NO'}. Poisson arrivals and links are "
            f"drawn once for a load, the same for all systems; answers by requests/s: {', '.join(asked[ARRIVING])}; by "
            f"clients, which ask two prompts in turn: {', '.join(asked[TOGETHER])}.",
            f"Virtual clock: the real engine, drafts and target; time is what stated costs and links make it. "
            f"{IN_WORDS.capitalize()}, on the server {PACE.per_level * 1000:.2f} ms.",
            "Latency is from asking to the answer's end; 'x faster' divides cloud decoding's mean latency at the same "
            "load by this one, every other 'x cloud' divides this by cloud decoding's. Tokens/s of a client are tokens "
            "over the sum of latencies; of all, tokens over the time from the first question to the end of the last "
            "answer, in which arrivals set the pace.",
            f"Pass-seconds are what the target's passes cost, prompts included. A server that drafts works beside them: "
            f"'server levels/s' of at most {1 / PACE.per_level:.0f}, one drafter for all sessions. 'Pass- or drafting "
            "second' counts that work like a pass's.",
        ),
        results={
            "stated_costs": {**STATED, "server_level_ms": PACE.per_level * 1000},
            "clock": "virtual",
            "link": asdict(find_profile(link)),
            "identical": not different,
            "promise": {
                "clients": JUDGED_CLIENTS,
                "least_gain_in_tokens_per_pass_second": PROMISED,
                "measured": promise,
            },
            "loads": [
                {"of": load.of, "amount": load.amount, "systems": {name: each.as_dict() for name, each in systems.items()}}
                for load, systems in crowds.items()
            ],
        },
        draw=lambda axes: _draw(axes, crowds),
        faults=[
            *(f"the answers differ between systems at {load}, which must never happen" for load in different),
            *broken,
        ],
    )


def gains_with(crowds: Crowds, load: Load) -> dict[str, float]:
    """Tokens per pass-second over cloud decoding's, of the systems that promise something; empty without that load."""
    systems = crowds.get(load, {})
    return {
        system.name: _against_cloud(systems, systems[system.name].tokens_per_pass_second, "tokens_per_pass_second")
        for system in (PATIENT, AUTO)
        if system.name in systems
    }


def _promise_in_words(gains: Mapping[str, float]) -> list[str]:
    if not gains:
        return []
    measured = " and ".join(f"{gain:.2f} for {name}" for name, gain in gains.items())
    kept = "kept" if max(gains.values()) >= PROMISED else "NOT kept"
    return [
        f"Promised with {JUDGED_CLIENTS} clients: patient or auto commit at least {PROMISED:g} times cloud decoding's "
        f"tokens per pass-second. Measured: {measured}; {kept}."
    ]
