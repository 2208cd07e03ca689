"""Draws speed.png, the README's picture, from docs/benchmarks/network/results.json: `python docs/pictures/speed.py`."""

import json
from pathlib import Path

from matplotlib.figure import Figure

from netem.plots.palette import system_look

HERE = Path(__file__).parent
RESULTS = HERE.parent / "benchmarks" / "network" / "results.json"

SYSTEMS = {
    "cloud decoding": "decoding in the cloud, no drafts",
    "lock-step eagle": "lock-step rounds, EAGLE-2 style draft",
    "lock-step moa": "lock-step rounds, Mixture of Attentions draft",
    "server-side speculation": "speculation on the server alone, in turn with passes",
    "server-side, overlapped": "Outrider's server alone, drafting during passes",
    "eager": "Outrider, drafts on the laptop only (eager)",
    "auto": "Outrider, drafts at both ends (auto)",
}
"""The experiment's name of a system, and how it is labelled. Colours are those of all plots."""

LINKS = {
    "5g": "5G\n10±10 ms each way",
    "4g": "4G\n21±19 ms",
    "lte-drive": "LTE, moving car\n44.5±5 ms",
    "cell-edge": "cell edge\n120 ms",
    "satellite": "satellite\n300 ms",
}


def draw(links: dict[str, dict], figure: Figure) -> None:
    axes = figure.subplots()
    width = 0.84 / len(SYSTEMS)
    for column, (system, label) in enumerate(SYSTEMS.items()):
        speeds = [links[link]["systems"][system]["tokens_per_second"] for link in LINKS]
        places = [row - 0.42 + (column + 0.5) * width for row in range(len(LINKS))]
        bars = axes.bar(places, speeds, width * 0.92, label=label, color=system_look(system).colour)
        weight = "bold" if system == "auto" else "normal"
        axes.bar_label(bars, fmt="{:.0f}", padding=2, fontsize=7.5, fontweight=weight)
    axes.set_xticks(range(len(LINKS)), list(LINKS.values()))
    axes.tick_params(axis="both", length=0)
    axes.set_ylabel("committed tokens per second, one client")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="y", color="#e6e8eb")
    axes.set_axisbelow(True)
    figure.legend(frameon=False, loc="outside upper center", ncols=2, fontsize=9)


def drawn(links: dict[str, dict]) -> dict[str, dict[str, float]]:
    """The figures of the picture, which its file holds as its description too, so that a stale one is noticed."""
    return {link: {name: links[link]["systems"][name]["tokens_per_second"] for name in SYSTEMS} for link in LINKS}


if __name__ == "__main__":
    figure = Figure(figsize=(9.6, 4.9), layout="constrained")
    links = json.loads(RESULTS.read_text(encoding="utf-8"))["results"]["links"]
    draw(links, figure)
    figure.savefig(HERE / "speed.png", dpi=150, metadata={"Description": json.dumps(drawn(links))})
