"""What systems and draft models are called and how they look, in all plots: the one place that says so.

Green is Outrider's: no baseline, draft model or mark has it.
"""

import re
from dataclasses import dataclass

INK = "#1f2933"
MUTED = "#5b6672"
GRID = "#dfe3e8"
PAPER = "#fffffe"
"""Of text, lesser text, lines behind data, and marks that are hollow. The results page has its theme's instead."""

WARNING = "#b3261e"
"""Of what is wrong."""

GOOD, NEUTRAL, DOUBTFUL, BAD, WORST = "#2f86c1", "#7f8a96", "#c08a1e", "#d1495b", "#7a1f3d"
"""Of verdicts, from as it must be to what must never be."""

OURS = "#17735a"
"""Of text that names Outrider's own systems."""

UNKNOWN = "#7d8792"


@dataclass(frozen=True)
class Look:
    """label: in legends and beside data. marker: matplotlib's, so that colour is not all that tells lines apart."""

    label: str
    colour: str
    marker: str = "o"
    is_ours: bool = False


SYSTEMS = {
    "cloud decoding": Look("cloud decoding", "#8b95a1"),
    "plain decoding": Look("plain decoding", "#8b95a1"),
    "server-side speculation": Look("server-side speculation", "#3f77b5", "s"),
    "server-side, overlapped": Look("server-side speculation, overlapped", "#1f4e8c", "d"),
    "lock-step eagle": Look("lock-step eagle", "#e3b341", "v"),
    "lock-step independent": Look("lock-step independent", "#b98b6e", "<"),
    "lock-step moa": Look("lock-step moa", "#d9772b", ">"),
    "lock-step moa, long": Look("lock-step moa, long", "#a34a12", "P"),
    "lock-step": Look("lock-step", "#d9772b", ">"),
    "batched rounds, computed": Look("batched rounds, computed", "#8a63b5", "X"),
    "llama-server": Look("llama-server", "#b7c4d4"),
    "llama-server, draft": Look("llama-server, draft", "#5a5fa5", "s"),
    "generate": Look("transformers generate", "#d8c7a0"),
    "assisted generation": Look("assisted generation", "#c7794a", ">"),
    "patient": Look("Outrider (patient)", "#97c15c", "^", True),
    "eager": Look("Outrider (eager)", "#43ad83", "D", True),
    "assist": Look("Outrider (assist)", "#2a8f9d", "p", True),
    "auto": Look("Outrider (auto)", OURS, "h", True),
}
"""By the name that experiments give it; the baselines, then Outrider's own idle policies."""

_STREAMING = "streaming, "

DRAFTS = {
    "lookup": "#6d6875",
    "lookahead": "#2f4b7c",
    "ouroboros": "#7f3c2b",
    "medusa": "#e07a5f",
    "hydra": "#e9a15b",
    "clover": "#b5a642",
    "independent": "#a0785a",
    "glide": "#4c9fc0",
    "eagle": "#c94f7c",
    "eagle3": "#8e2f5c",
    "tandem": "#7d6bc2",
    "moa": "#6fb1dc",
    "block": "#9c4dcc",
    "dflash": "#5e35b1",
}
"""By kind. `moa` grows darker with the number of target layers that it runs."""

_DEEPER_MOA = {1: "#2f86c1", 2: "#2f86c1", 3: "#14507a"}


def system_look(name: str) -> Look:
    """Of a system by the name that an experiment gives it; grey for one that is not listed."""
    known = SYSTEMS.get(name.removeprefix(_STREAMING))
    if known is None:
        family = name.rpartition(", ")[0]  # rounds of so many levels
        known = SYSTEMS.get(family, Look(name, UNKNOWN))
        return Look(name, known.colour, known.marker, known.is_ours)
    return known


def draft_colour(name: str) -> str:
    """Of a draft model: of the kind that its name begins with, and of its depth."""
    kind = re.match(r"[a-z0-9]*", name)
    depth = re.search(r"N ?= ?(\d+)", name)
    if kind is not None and kind[0] == "moa" and depth is not None:
        return _DEEPER_MOA.get(int(depth[1]), DRAFTS["moa"])
    return DRAFTS.get(kind[0] if kind else "", UNKNOWN)


def is_combined(name: str) -> bool:
    """Whether several draft models propose together, as `moa+lookup`; their marks are hollow."""
    return "+" in name
