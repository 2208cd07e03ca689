"""Counters of the server's own work, and their summary. They say nothing about anyone's text."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class Counters:
    """Totals since the start."""

    sessions: int = 0  # opened; a resumed one counts once
    failed: dict[str, int] = field(default_factory=dict)  # streams that ended with a fault of theirs or ours, by code
    refused: dict[str, int] = field(default_factory=dict)  # and those that may come back later, by reason
    preempted: int = 0  # running answers that failed because others needed their slots
    finished: dict[str, int] = field(default_factory=dict)  # answers, by reason
    prompt_tokens: int = 0  # that came with requests and were not here before
    prefix_cache_queries: int = 0  # of prompts, tokens that their own sessions did not hold when they came
    prefix_cache_hits: int = 0  # of these, tokens whose K/V came from the prefix cache
    passes: int = 0
    session_passes: int = 0  # summed over passes: the sessions that took part
    packed_tokens: int = 0
    committed_tokens: int = 0
    recomputed_tokens: int = 0  # committed positions that went through the target again; 0 unless something is wrong
    stale_nodes: int = 0  # nodes that arrived after their path had been rejected
    drafts: int = 0  # summed over passes: the sessions whose nodes were verified
    draft_tokens: int = 0  # nodes that were verified
    accepted_tokens: int = 0  # of these, committed
    assisted_levels: int = 0  # drafted on the server
    overrun_levels: int = 0  # of these, that took longer than their stated cost
    overrun_passes: int = 0  # passes that took longer than their stated cost
    busy_seconds: float = 0.0  # computing, what a stated cost adds not counted
    state_frames: int = 0
    state_bytes: dict[str, int] = field(default_factory=dict)  # of draft state's payloads, by kind
    state_cached_bytes: int = 0  # of draft state kept for sessions that share prefixes, now
    state_seconds: float = 0.0  # computing and encoding draft state; before a pass, it is also part of busy_seconds

    @property
    def sessions_per_pass(self) -> float:
        return self.session_passes / self.passes if self.passes else 0.0

    def state_sent(self, kind: str, size: int) -> None:
        self.state_frames += 1
        self.state_bytes[kind] = self.state_bytes.get(kind, 0) + size

    def summary(self) -> dict[str, Any]:
        """All counters and the mean number of sessions per pass, for one line of JSON."""
        return {
            **asdict(self),
            "busy_seconds": round(self.busy_seconds, 3),
            "state_seconds": round(self.state_seconds, 3),
            "sessions_per_pass": round(self.sessions_per_pass, 3),
        }
