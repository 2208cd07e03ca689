"""The table of /stats: figures of the last answer and of the conversation side by side. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from client.stats import Stats, combined, per


def stats_table(answers: Sequence[Stats]) -> list[tuple[str, str, str]]:
    """Rows of a name, the last answer's figure and the conversation's; empty if nothing was answered."""
    if not answers:
        return []
    last, together = answers[-1], combined(answers)
    # What a draft wrote alone took time too, but nothing of it is the target's.
    speed = per(together.tokens, sum(each.seconds for each in answers if each.tokens))
    together = replace(together, tokens_per_second=speed)
    return [("answers", "the last", str(len(answers))), *((name, tell(last), tell(together)) for name, tell in _ROWS)]


def _kilobytes(size: int) -> str:
    return f"{size / 1000:.1f} kB"


_ROWS: list[tuple[str, Callable[[Stats], str]]] = [
    ("tokens", lambda of: str(of.tokens)),
    ("tokens/s", lambda of: f"{of.tokens_per_second:.1f}"),
    ("seconds", lambda of: f"{of.seconds:.1f}"),
    ("first token", lambda of: f"{of.ttft_seconds * 1000:.0f} ms" if of.tokens else "none"),
    ("accept length", lambda of: f"{of.accept_length:.2f}"),
    ("up", lambda of: _kilobytes(of.bytes_up)),
    ("down", lambda of: _kilobytes(of.bytes_down)),
    ("of it draft state", lambda of: _kilobytes(sum(of.state_bytes.values()))),
    ("round trip", lambda of: f"{of.rtt_ms:.0f} ms" if of.rtt_ms else "none"),
    ("provisional", lambda of: str(of.provisional_tokens)),
    ("retracted", lambda of: str(of.retracted_tokens)),
    ("reconnects", lambda of: str(of.reconnects)),
]
