"""The table, remarks and plot of `first-token`. May know what is compared; it runs nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from client.stats import per
from netem.experiments.experiment import Report
from netem.experiments.speed.costs import VIRTUAL_CLOCK, VIRTUAL_COSTS
from netem.experiments.speed.runs import quantile
from netem.experiments.speed.systems import CLOUD_DECODING
from netem.links.profiles import find_profile

HEADINGS = ("link", "prompt", "system", "questions", "first token, median", "x cloud", "p95", "x cloud")

PROMISED = 1.1
"""The largest allowed ratio to cloud decoding's median, for the judged link and length."""


@dataclass(frozen=True, slots=True)
class LinkAndLength:
    """A link and a prompt's length in tokens."""

    link: str
    length: int

    def __str__(self) -> str:
        return f"{self.link}, {self.length} tokens"


JUDGED = LinkAndLength("4g", 1000)

Waits = Mapping[LinkAndLength, Mapping[str, Sequence[float]]]
"""By link and length, then by system: seconds to the first token of every request, the same requests for all
systems."""


def make_report(waits: Waits, prompts: int) -> Report:
    promised = ratios(waits[JUDGED]) if JUDGED in waits else {}
    is_broken = max(promised.values(), default=0.0) > PROMISED
    return Report(
        title="Time to the first token, on the virtual clock",
        headings=HEADINGS,
        rows=[_row(place, name, systems) for place, systems in waits.items() for name in systems],
        remarks=(
            *_in_words(promised),
            f"{prompts} prompts on several draws of the link, a question each: held-out texts joined in one message, "
            "cut to the exact length in front of the chat template's end; one client, greedy. All systems meet the "
            "same prompts on links with the same seeds; a packet before the first commit, such as the acknowledgement "
            "of drafts, shifts the draws of jitter that follow, so that systems that draft meet other jitter.",
            "From sending the prompt to the first commit's arrival, as the client counts it. 'x cloud' divides the "
            "figure before it by cloud decoding's.",
            f"{VIRTUAL_CLOCK} At most 512 tokens in a pass, so that a longer prompt takes several.",
        ),
        results={
            "stated_costs": VIRTUAL_COSTS,
            "clock": "virtual",
            "profiles": {link: asdict(find_profile(link)) for link in {place.link: None for place in waits}},
            "promised": {
                **asdict(JUDGED),
                "most": PROMISED,
                "measured": promised,
                "kept": bool(promised) and max(promised.values()) <= PROMISED,
            },
            "places": [
                {**asdict(place), "systems": {name: _result(name, systems) for name in systems}}
                for place, systems in waits.items()
            ],
        },
        faults=["the first token comes later than promised"] if is_broken else (),
    )


def ratios(systems: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The medians of all other systems, divided by cloud decoding's."""
    cloud = median(systems[CLOUD_DECODING.name])
    return {name: per(median(each), cloud) for name, each in systems.items() if name != CLOUD_DECODING.name}


def _in_words(measured: Mapping[str, float]) -> list[str]:
    if not measured:
        return []
    figures = ", ".join(f"{name} {ratio:.3f}" for name, ratio in measured.items())
    kept = "kept" if max(measured.values()) <= PROMISED else "NOT kept"
    return [
        f"Promised on {JUDGED.link} with a prompt of {JUDGED.length} tokens: at most {PROMISED:g} times cloud "
        f"decoding's median. Measured: {figures}; {kept}."
    ]


def _row(place: LinkAndLength, name: str, systems: Mapping[str, Sequence[float]]) -> list[str]:
    result = _result(name, systems)
    return [
        place.link,
        str(place.length),
        name,
        str(result["questions"]),
        f"{1000 * result['median_seconds']:.0f} ms",
        f"{result['median_against_cloud']:.3f}",
        f"{1000 * result['p95_seconds']:.0f} ms",
        f"{result['p95_against_cloud']:.3f}",
    ]


def _result(name: str, systems: Mapping[str, Sequence[float]]) -> dict[str, float]:
    waits, cloud = systems[name], systems[CLOUD_DECODING.name]
    return {
        "questions": len(waits),
        "median_seconds": median(waits),
        "p95_seconds": quantile(waits, 0.95),
        "median_against_cloud": per(median(waits), median(cloud)),
        "p95_against_cloud": per(quantile(waits, 0.95), quantile(cloud, 0.95)),
    }
