"""An answer as its caller gets it, and what is measured of one while it is made. Knows no link and no drafter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from client.drafting.pace import Levels
from client.drafting.provisional import ProvisionalCount
from client.stats import Meter, Stats, per
from common.protocol.client_session import ClientSession
from common.rpc.traffic import Traffic

OFFLINE = "offline"
"""The finish reason of an answer whose server did not come back."""

TokenListener = Callable[[Sequence[int], Sequence[int]], None]
"""Is called with the tokens committed since the last call, and the provisional run that now follows them."""


DRAFTER_FAILED = "the drafter failed"
"""How the note begins of an answer that went on without its drafter."""


@dataclass(frozen=True, slots=True)
class Answer:
    tokens: tuple[int, ...]  # committed, the end token included
    finish_reason: str  # a FinishReason, "offline", "spent" or "repetition" (see `private.draft_only`), or "error"
    stats: Stats
    provisional: tuple[int, ...] = ()  # drafted offline behind them, and never verified
    levels: int = 0  # drafted
    overrun_levels: int = 0  # of these, that took longer than the stated pace
    failure: str = ""  # why the answer broke off
    note: str = ""  # what a person should know of an answer that is whole
    private: bool = False  # drafted on this machine alone, because the server must not see what it follows

    def is_lossy(self, *, by_rule: bool) -> bool:
        """Whether the target might have written another, by a lossy rule or by text that it never verified. What the
        draft model writes of a private prompt is not called lossy."""
        return (by_rule and not self.private) or self.stats.unverified_tokens > 0


@dataclass(frozen=True, slots=True)
class AnswerRecord:
    """What is measured of one answer beside the session."""

    meter: Meter
    provisional: ProvisionalCount
    on_tokens: TokenListener
    traffic_before: Traffic
    levels_before: Levels
    reconnects_before: int

    def show(self, committed: Sequence[int], provisional: Sequence[int]) -> None:
        self.provisional.update(committed, provisional)
        self.on_tokens(committed, provisional)

    def stats(
        self, session: ClientSession, traffic: Traffic, reconnects: int, rtt_s: float, draft: str, rule: str
    ) -> Stats:
        """`traffic` and `reconnects` are the stream's now, `rtt_s` is in seconds."""
        tokens, seconds, own = len(session.answer), self.meter.elapsed(), traffic.since(self.traffic_before)
        return Stats(
            tokens=tokens,
            seconds=seconds,
            tokens_per_second=per(tokens, seconds),
            ttft_seconds=self.meter.ttft,
            accept_length=per(tokens - session.unverified, session.passes),
            passes=session.passes,
            bytes_up=own.up,
            bytes_down=own.down,
            rtt_ms=rtt_s * 1000,
            provisional_tokens=self.provisional.offered,
            retracted_tokens=self.provisional.retracted,
            reconnects=reconnects - self.reconnects_before,
            draft=draft,
            rule=rule,
            state_bytes=own.state,
            unverified_tokens=session.unverified,
        )
