"""Gaps between the commits of answers, as clients on each link saw them within a window of time. Pure: times are
arguments, in seconds.

It may not know how answers are made, nor what is compared.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from client.stats import per
from netem.experiments.speed.runs import quantile


@dataclass(frozen=True, slots=True)
class LinkGaps:
    """What clients on one link saw. gaps: seconds between two commits of one answer, of those that ended in the window
    and, as long as they were by then, of those that were open at its end: else the longest gaps of a server that cannot
    keep up would not count. tokens: behind the first commit of an answer, in `client_seconds` of all clients."""

    tokens: int
    client_seconds: float
    gaps: Sequence[float]

    @property
    def tokens_per_client_second(self) -> float:
        return per(self.tokens, self.client_seconds)

    @property
    def gap_p95_s(self) -> float:
        return quantile(self.gaps, 0.95)


def together(each: Sequence[LinkGaps]) -> LinkGaps:
    """Over several links."""
    return LinkGaps(
        sum(link.tokens for link in each),
        sum(link.client_seconds for link in each),
        [gap for link in each for gap in link.gaps],
    )


class GapRecorder:
    """Counts from `begins_s` on."""

    def __init__(self, begins_s: float):
        self._begins_s = begins_s
        self._latest: dict[int, tuple[str, float]] = {}
        self._tokens: dict[str, int] = defaultdict(int)
        self._seconds: dict[str, float] = defaultdict(float)
        self._gaps: dict[str, list[float]] = defaultdict(list)

    def committed(self, client: int, link: str, tokens: int, now_s: float) -> None:
        """The client, whose answer comes over that link, got so many tokens."""
        if client in self._latest and now_s >= self._begins_s:
            self._count(*self._latest[client], now_s)
            self._tokens[link] += tokens
        self._latest[client] = link, now_s

    def answered(self, client: int) -> None:
        """The answer has ended: until the next one's first commit the client waits for no token."""
        self._latest.pop(client, None)

    def seen(self, links: Sequence[str], ends_s: float) -> Mapping[str, LinkGaps]:
        """By link, with the gaps that are open at the end of the window."""
        for link, latest_s in self._latest.values():
            self._count(link, latest_s, ends_s)
        self._latest.clear()
        return {link: LinkGaps(self._tokens[link], self._seconds[link], self._gaps[link]) for link in links}

    def _count(self, link: str, latest_s: float, now_s: float) -> None:
        self._gaps[link].append(now_s - latest_s)
        self._seconds[link] += now_s - max(latest_s, self._begins_s)
