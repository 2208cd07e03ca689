"""Log-probabilities on the wire are possible ones, and a client knows those of what was committed."""

from dataclasses import replace

import pytest

from common.protocol.checks import check_logprobs, check_settings
from common.protocol.client_session import ClientSession, Limits
from common.protocol.errors import PeerError
from common.protocol.logprobs import LEAST_LOGPROB, MAX_TOP_LOGPROBS, TokenLogprobs
from common.protocol.messages import Commit, Opened, Settings

VOCAB = 9
ROW = TokenLogprobs(-1.5, ((3, -0.5), (4, -1.5)))
COMMIT = Commit(0, 2, (4, 3), logprobs=(ROW, replace(ROW, logp=-0.5)))
ASKED = Settings(9, top_logprobs=2)


def test_what_was_asked_for_is_taken():
    check_logprobs(COMMIT, ASKED, VOCAB)
    check_logprobs(replace(COMMIT, logprobs=()), Settings(9), VOCAB)


def test_a_vocabulary_smaller_than_what_is_asked_for_is_told_whole():
    row = TokenLogprobs(0.0, ((1, 0.0), (0, LEAST_LOGPROB)))
    check_logprobs(Commit(0, 2, (1,), logprobs=(row,)), replace(ASKED, top_logprobs=5), 2)


@pytest.mark.parametrize(
    "row",
    [
        replace(ROW, logp=0.1),
        replace(ROW, logp=float("nan")),
        replace(ROW, logp=-10000.0),
        replace(ROW, top=((3, -0.5), (4, 0.5))),
        replace(ROW, top=((3, -0.5),)),
        replace(ROW, top=((3, -0.5), (3, -0.5))),
        replace(ROW, top=((3, -0.5), (VOCAB, -0.5))),
        replace(ROW, top=((3, -0.5), (4, -1.5), (5, -2.0))),
    ],
)
def test_impossible_ones_are_the_servers_fault(row):
    with pytest.raises(PeerError, match="cannot be"):
        check_logprobs(replace(COMMIT, logprobs=(ROW, row)), ASKED, VOCAB)


def test_missing_ones_are_told_from_unwanted_ones():
    with pytest.raises(PeerError, match="older release"):
        check_logprobs(replace(COMMIT, logprobs=()), ASKED, VOCAB)
    with pytest.raises(PeerError, match="not asked for"):
        check_logprobs(COMMIT, Settings(9), VOCAB)


@pytest.mark.parametrize("count", [-1, MAX_TOP_LOGPROBS + 1])
def test_a_wish_out_of_range_is_refused(count):
    with pytest.raises(PeerError, match="from 0 to 20"):
        check_settings(Settings(9, top_logprobs=count))


def test_the_client_knows_those_of_what_was_committed_and_none_of_what_it_accepted_itself():
    client = ClientSession("s", Limits("f", VOCAB, 20, 4))
    client.open((1, 2), ASKED)
    client.receive(Opened("s"))
    client.receive(COMMIT)
    client.lost()
    client.accept_unverified((5,))
    assert [client.logprobs_of(index) for index in range(3)] == [*COMMIT.logprobs, None]
