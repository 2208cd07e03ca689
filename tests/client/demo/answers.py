"""Made-up answers, for tests of what is computed from them. Nothing else may live here."""

from client.answer import Answer
from client.stats import Stats


def answer(
    tokens: tuple[int, ...] = (1, 2, 3, 4), *, seconds: float = 1.0, ttft: float = 0.1, levels: int = 0, late: int = 0
) -> Answer:
    stats = Stats(
        tokens=len(tokens),
        seconds=seconds,
        tokens_per_second=len(tokens) / seconds,
        ttft_seconds=ttft,
        accept_length=2.0,
        passes=len(tokens) // 2,
        bytes_up=123_456,
        bytes_down=98_765,
        rtt_ms=601.0,
        provisional_tokens=0,
        retracted_tokens=0,
        reconnects=0,
        draft="draft",
        rule="greedy",
    )
    return Answer(tokens, "end_token", stats, levels=levels, overrun_levels=late)


def counted(*, passes: int = 100, overrun: int = 0, recomputed: int = 0) -> dict[str, float]:
    """A server's summary."""
    return {
        "passes": passes,
        "overrun_passes": overrun,
        "recomputed_tokens": recomputed,
        "sessions_per_pass": 1.0,
    }
