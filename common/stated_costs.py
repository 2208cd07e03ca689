"""The stated costs of a datacenter GPU and of a laptop, which experiments impose, and when a run failed to keep
them."""

import os
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StatedCosts:
    """Milliseconds: the least of a pass of the target, the least of it for each packed token, and a level drafted on a
    laptop."""

    pass_ms: float
    token_ms: float
    draft_level_ms: float

    def times(self, factor: float) -> "StatedCosts":
        """All of them so many times as high."""
        return StatedCosts(*(factor * cost for cost in astuple(self)))

    @property
    def server_level_ms(self) -> float:
        """A level that the server drafts."""
        return self.draft_level_ms / 3

    @property
    def draft_seconds(self) -> float:
        return self.draft_level_ms / 1000

    @property
    def server_arguments(self) -> tuple[str, ...]:
        """With which `outriderd serve` keeps them."""
        return (
            *("--pace-pass", f"{self.pass_ms:g}ms"),
            *("--pace-token", f"{self.token_ms:g}ms"),
            *("--pace-draft", f"{self.server_level_ms:g}ms"),
        )

    @property
    def in_words(self) -> str:
        return (
            f"a pass takes {self.pass_ms:g} ms, or {self.token_ms:g} ms per packed token where that is more, "
            f"a drafted level {self.draft_level_ms:g} ms"
        )


STATED = StatedCosts(pass_ms=30.0, token_ms=0.1, draft_level_ms=5.0)
"""Of an 8B target and its draft model."""

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
