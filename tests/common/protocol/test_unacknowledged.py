"""A stream that resumes an answer repeats the commits that its client does not have."""

from dataclasses import replace

from common.protocol.logprobs import TokenLogprobs
from common.protocol.messages import Commit, Settings
from common.protocol.server_session import ServerSession
from common.protocol.unacknowledged import commits_to_repeat, still_unacknowledged
from tests.common.protocol.fakes import terms
from tests.common.protocol.test_server_session import open_frame

TOKENS = tuple(range(20, 36))


def rows(start: int, end: int) -> tuple[TokenLogprobs, ...]:
    return tuple(TokenLogprobs(-float(position)) for position in range(start, end))


def commit(start: int, end: int) -> Commit:
    return Commit(0, start, TOKENS[start:end], logprobs=rows(start, end))


def test_each_pass_is_repeated_by_a_commit_of_its_own():
    commits = (commit(10, 12), commit(12, 13), commit(13, 16))
    assert commits_to_repeat(commits, 0, 10, TOKENS) == commits
    assert commits_to_repeat(commits, 0, 12, TOKENS) == commits[1:]
    assert commits_to_repeat(commits, 0, 16, TOKENS) == ()


def test_what_a_client_has_of_a_commit_is_not_repeated():
    assert commits_to_repeat([commit(10, 13), commit(13, 16)], 0, 11, TOKENS) == (commit(11, 13), commit(13, 16))


def test_what_was_acknowledged_is_forgotten():
    kept = [*still_unacknowledged([commit(8, 10), commit(10, 11)], 10), commit(11, 16)]
    assert commits_to_repeat(kept, 0, 10, TOKENS) == (commit(10, 11), commit(11, 16))
    # An Open that comes late may know less; what it lacks is there all the same, without what is forgotten.
    assert commits_to_repeat(kept, 0, 7, TOKENS)[0] == replace(commit(7, 10), logprobs=())


def test_a_new_stream_repeats_log_probabilities_that_did_not_arrive():
    opened = open_frame(settings=Settings(20, top_logprobs=0))
    server = ServerSession(opened, terms(), 0.0)
    row_of = {token: TokenLogprobs(-float(token)) for token in (4, 5, 6)}
    for token, row in row_of.items():
        made, *_ = server.complete(server.plan(9), [token], 1.0, [row]).replies
        assert made.logprobs == (row,)
    _, *repeated = server.reopen(replace(opened, tokens=(*opened.tokens, 4)), 2.0)
    assert [(each.tokens, each.logprobs) for each in repeated] == [((token,), (row_of[token],)) for token in (5, 6)]
