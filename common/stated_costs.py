"""The stated costs by which a small machine stands in for a datacenter GPU and a laptop, and when they do not hold."""

import os
from collections.abc import Mapping
from typing import Any

STATED = {"pass_ms": 30.0, "token_ms": 0.1, "draft_level_ms": 5.0}
"""What a pass of an 8B target takes, at least and for each packed token, and what a drafted level takes on a laptop."""

IN_WORDS = (
    f"a pass takes at least {STATED['pass_ms']:g} ms and {STATED['token_ms']:g} ms per token, "
    f"a drafted level {STATED['draft_level_ms']:g} ms"
)

SERVER_LEVEL_MS = STATED["draft_level_ms"] / 3
"""What a level costs that is drafted beside the target."""

SERVER_ARGUMENTS = (
    *("--pace-pass", f"{STATED['pass_ms']:g}ms"),
    *("--pace-token", f"{STATED['token_ms']:g}ms"),
    *("--pace-draft", f"{SERVER_LEVEL_MS:g}ms"),
)

DRAFT_SECONDS = STATED["draft_level_ms"] / 1000

HALF_THE_CORES = max(1, (os.cpu_count() or 1) // 2)
"""The torch threads of each end: on one machine they stand for two, so they share its cores evenly."""

OVERRUN_LIMIT = 0.05
"""The share of a system's passes that may overrun before a run says nothing about its speed."""


def overrun_share(counters: Mapping[str, Any]) -> float:
    """Of a server's passes, those that took longer than their stated cost."""
    return int(counters["overrun_passes"]) / max(1, int(counters["passes"]))


def overrun_faults(shares: Mapping[str, float]) -> list[str]:
    """A sentence for each system of which too many passes overran, so that none hides behind the others."""
    return [
        f"{share:.1%} of the passes of {name} took longer than their stated cost, and at most {OVERRUN_LIMIT:.0%} may"
        for name, share in shares.items()
        if share > OVERRUN_LIMIT
    ]
