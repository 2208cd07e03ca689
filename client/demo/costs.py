"""The stated costs by which a small machine stands in for a datacenter GPU and a laptop, and when they do not hold."""

import os
from collections.abc import Mapping
from typing import Any

SERVER_ARGUMENTS = ("--pace-pass", "30ms", "--pace-token", "0.1ms")
"""What a pass of an 8B target costs, as `outriderd serve` takes it."""

DRAFT_SECONDS = 0.005
"""What a drafted level costs on a laptop."""

HALF_THE_CORES = max(1, (os.cpu_count() or 1) // 2)
"""The torch threads of each end: on one machine they stand for two, so they share its cores evenly."""

STATED = {"pass_ms": 30.0, "token_ms": 0.1, "draft_level_ms": 1000 * DRAFT_SECONDS}

OVERRUN_LIMIT = 0.05
"""The share of overrun passes from which a run says nothing about speed."""


def overrun_share(counters: Mapping[str, Any]) -> float:
    """Of a server's passes, those that took longer than their stated cost."""
    return int(counters["overrun_passes"]) / max(1, int(counters["passes"]))
