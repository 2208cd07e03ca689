"""What a server keeps of commits that its client may not have yet, for a stream that resumes the answer. Pure."""

from collections.abc import Sequence
from itertools import pairwise

from common.protocol.logprobs import TokenLogprobs
from common.protocol.messages import Commit


class UnacknowledgedCommits:
    """What is kept is bounded by how far a server runs ahead of acknowledgements."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._rows: dict[int, TokenLogprobs] = {}

    def add(self, commit: Commit) -> None:
        self._starts.append(commit.start)
        self._rows.update(enumerate(commit.logprobs, commit.start))

    def acknowledge(self, frontier: int) -> None:
        """Forgets what is said of positions before `frontier`."""
        self._starts = [start for start in self._starts if start >= frontier]
        self._rows = {position: row for position, row in self._rows.items() if position >= frontier}

    def repeated(self, turn: int, known: int, tokens: Sequence[int]) -> tuple[Commit, ...]:
        """Those behind the first `known` of `tokens`, one for each pass as at first: clients count passes by them."""
        starts = [known, *(start for start in self._starts if start > known)]
        spans = [(start, end) for start, end in pairwise([*starts, len(tokens)]) if start < end]
        return tuple(
            Commit(turn, start, tuple(tokens[start:end]), logprobs=self._of(start, end)) for start, end in spans
        )

    def _of(self, start: int, end: int) -> tuple[TokenLogprobs, ...]:
        return tuple(self._rows[position] for position in range(start, end) if position in self._rows)
