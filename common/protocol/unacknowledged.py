"""What a server keeps of commits that its client may not have yet, for a stream that resumes the answer. Pure."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from common.protocol.logprobs import TokenLogprobs
from common.protocol.messages import Commit


class UnacknowledgedCommits:
    """Whoever commits appends to `kept`, of which how far a server runs ahead of acknowledgements bounds the length."""

    def __init__(self) -> None:
        self.kept: list[Commit] = []

    def acknowledge(self, frontier: int) -> None:
        """Forgets commits that end before `frontier`."""
        self.kept = [commit for commit in self.kept if commit.start + len(commit.tokens) > frontier]

    def repeated(self, turn: int, known: int, tokens: Sequence[int]) -> tuple[Commit, ...]:
        """Those behind the first `known` of `tokens`, one for each pass as at first: clients count passes by them."""
        starts = [known, *(commit.start for commit in self.kept if commit.start > known)]
        rows = {position: row for commit in self.kept for position, row in enumerate(commit.logprobs, commit.start)}
        return tuple(
            Commit(turn, start, tuple(tokens[start:end]), logprobs=_between(rows, start, end))
            for start, end in pairwise([*starts, len(tokens)])
            if start < end
        )


def _between(rows: Mapping[int, TokenLogprobs], start: int, end: int) -> tuple[TokenLogprobs, ...]:
    return tuple(rows[position] for position in range(start, end) if position in rows)
