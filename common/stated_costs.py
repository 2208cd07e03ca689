"""The stated costs of a datacenter GPU and of a laptop, which experiments impose, and when a run failed to keep
them."""

import os
from collections.abc import Mapping
from typing import Any

STATED = {"pass_ms": 30.0, "token_ms": 0.1, "draft_level_ms": 5.0}
"""Milliseconds: the least of a pass of an 8B target, the least of it for each packed token, and a level drafted on a
laptop."""

IN_WORDS = (
    f"a pass takes {STATED['pass_ms']:g} ms, or {STATED['token_ms']:g} ms per packed token where that is more, "
    f"a drafted level {STATED['draft_level_ms']:g} ms"
)

SERVER_LEVEL_MS = STATED["draft_level_ms"] / 3
"""The cost of a level that the server drafts."""

SERVER_ARGUMENTS = (
    *("--pace-pass", f"{STATED['pass_ms']:g}ms"),
    *("--pace-token", f"{STATED['token_ms']:g}ms"),
    *("--pace-draft", f"{SERVER_LEVEL_MS:g}ms"),
)

DRAFT_SECONDS = STATED["draft_level_ms"] / 1000

HALF_THE_CORES = max(1, (os.cpu_count() or 1) // 2)
"""The torch threads of each end, where both run on one machine: half of its cores."""

OVERRUN_LIMIT = 0.05
"""The largest share of passes that may exceed their stated cost; beyond it, a run's speed is not valid."""


def overrun_share(counters: Mapping[str, Any]) -> float:
    """The share of a server's passes that took longer than their stated cost."""
    return int(counters["overrun_passes"]) / max(1, int(counters["passes"]))


def overrun_faults(shares: Mapping[str, float]) -> list[str]:
    """One sentence for each system of which too many passes exceeded their stated cost."""
    return [
        f"{share:.1%} of the passes of {name} took longer than their stated cost, and at most {OVERRUN_LIMIT:.0%} may"
        for name, share in shares.items()
        if share > OVERRUN_LIMIT
    ]
