"""Commits that a client may not have yet: its server keeps them for a stream that resumes the answer. How far a server
runs ahead of acknowledgements bounds their number. Pure."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from common.protocol.logprobs import TokenLogprobs
from common.protocol.messages import Commit


def still_unacknowledged(commits: Sequence[Commit], frontier: int) -> list[Commit]:
    """Those that reach past the client's `frontier`."""
    return [commit for commit in commits if commit.start + len(commit.tokens) > frontier]


def commits_to_repeat(commits: Sequence[Commit], turn: int, known: int, tokens: Sequence[int]) -> tuple[Commit, ...]:
    """Those behind the first `known` of `tokens`, one for each pass as at first: clients count passes by them."""
    starts = [known, *(commit.start for commit in commits if commit.start > known)]
    rows = {position: row for commit in commits for position, row in enumerate(commit.logprobs, commit.start)}
    return tuple(
        Commit(turn, start, tuple(tokens[start:end]), logprobs=_between(rows, start, end))
        for start, end in pairwise([*starts, len(tokens)])
        if start < end
    )


def _between(rows: Mapping[int, TokenLogprobs], start: int, end: int) -> tuple[TokenLogprobs, ...]:
    return tuple(rows[position] for position in range(start, end) if position in rows)
