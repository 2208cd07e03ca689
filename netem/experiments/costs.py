"""The stated costs by which a small machine stands in for a datacenter GPU and a laptop (architecture, numbers)."""

from typing import Any

SERVER_ARGUMENTS = ("--pace-pass", "30ms", "--pace-token", "0.1ms")
DRAFT_SECONDS = 0.005
OVERRUN_LIMIT = 0.05

STATED = {"pass_ms": 30.0, "token_ms": 0.1, "draft_level_ms": 1000 * DRAFT_SECONDS}


def overrun_share(counters: dict[str, Any]) -> float:
    """Of a server's passes, those that took longer than their stated cost."""
    return float(counters["overrun_passes"]) / max(1, counters["passes"])
