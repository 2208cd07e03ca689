"""The last value that a bound allows is taken. That the next one is refused, the tests of each check say.

`make mutate` found most of these: where only refusals are tested, a bound that is too narrow by one goes unnoticed.
"""

import math

import pytest

from common.protocol.checks import check_logprobs, check_nodes, check_open, check_settings
from common.protocol.client_session import ClientSession, Limits
from common.protocol.constraint import Grammar, check_length
from common.protocol.errors import MisuseError, PeerError
from common.protocol.logprobs import LEAST_LOGPROB, MAX_TOP_LOGPROBS, TokenLogprobs
from common.protocol.messages import (
    Ack,
    Commit,
    Constraint,
    Extend,
    Finished,
    FinishReason,
    Grow,
    GrownNode,
    Opened,
    Settings,
    State,
    StateRequest,
)
from common.protocol.sampling import Sampling
from common.protocol.server_session import ServerSession
from common.protocol.tree import TokenTree
from common.protocol.views import Proposal
from tests.common.protocol.fakes import END, VOCAB, terms
from tests.common.protocol.test_server_session import open_frame, run_pass, session

TERMS = terms()


@pytest.mark.parametrize(
    "opened",
    [
        open_frame(session="s" * 16),
        open_frame(session="s" * 64),
        open_frame(tokens=(0, VOCAB - 1)),
        open_frame(tokens=(1,)),
        open_frame(tokens=(1,) * (TERMS.context - 1)),
        open_frame(tokens=(1,) * TERMS.context, prompt_length=1),
    ],
)
def test_an_open_at_a_bound_is_taken(opened):
    check_open(opened, TERMS)


def test_an_open_is_checked_against_the_target_that_is_to_serve_it():
    biased = Settings(9, sampling=Sampling(logit_bias=((VOCAB, 1.0),)))
    check_settings(biased)
    with pytest.raises(PeerError, match="outside the target's vocabulary"):
        check_open(open_frame(settings=biased), TERMS)


@pytest.mark.parametrize("prompt", [(1,), (1, 2)])
def test_however_short_a_prompt_is_a_lockstep_session_waits_for_a_tree_behind_it(prompt):
    server = ServerSession(open_frame(prompt), terms("lockstep"), 0.0)
    if len(prompt) > 1:
        server.complete(server.plan(len(prompt) - 1), [], 0.0)
    assert server.due() == math.inf
    server.receive(Grow(0, len(prompt), ()), 1.0)
    assert server.due() < math.inf


@pytest.mark.parametrize(
    "settings",
    [
        Settings(0),
        Settings(9, stop=("x" * 500, "\u00e4" * 6)),
        Settings(9, stop=("x",) * 16),
        Settings(9, top_logprobs=0),
        Settings(9, top_logprobs=MAX_TOP_LOGPROBS),
        Settings(9, sampling=Sampling(logit_bias=((0, -100.0), (VOCAB - 1, 100.0)))),
        Settings(9, sampling=Sampling(presence_penalty=-100.0, frequency_penalty=100.0)),
        Settings(9, "coupled", sampling=Sampling(0.01, top_k=2**31 - 1, top_p=1.0, repetition_penalty=0.01)),
        Settings(9, "coupled", sampling=Sampling(100.0, min_p=0.0, repetition_penalty=100.0, seed=2**64 - 1)),
    ],
)
def test_settings_at_a_bound_are_taken(settings):
    check_settings(settings, TERMS)


def test_as_many_tokens_as_are_allowed_may_be_biased():
    settings = Settings(9, sampling=Sampling(logit_bias=tuple((token, 1.0) for token in range(1024))))
    check_settings(settings)


@pytest.mark.parametrize(("grammar", "most"), [(Grammar.JSON_SCHEMA, 1 << 15), (Grammar.LARK, 12 << 10)])
def test_the_longest_constraint_is_taken(grammar, most):
    check_length(Constraint(grammar, "x" * most))
    with pytest.raises(PeerError, match=f"more than the {most} allowed"):
        check_length(Constraint(grammar, "x" * (most + 1)))


def test_as_many_nodes_as_a_tree_may_have_are_taken_in_one_grow_but_no_id_twice():
    nodes = [GrownNode(index, index - 1, index % VOCAB, -1.0) for index in range(1, TERMS.max_nodes + 1)]
    check_nodes(nodes, TERMS)
    with pytest.raises(PeerError, match="node ids must strictly increase, but 1 follows 1"):
        check_nodes([nodes[0], nodes[0]], TERMS)
    with pytest.raises(PeerError, match="node ids must strictly increase, but 0 follows 0"):
        check_nodes([GrownNode(0, 0, 1, -1.0)], TERMS)


def test_a_client_may_fill_the_tree_over_several_grows():
    server = session()
    half = TERMS.max_nodes // 2
    for start in (1, half + 1):
        chain = tuple(GrownNode(index, index - 1, 4, -0.1) for index in range(start, start + half))
        server.receive(Grow(0, 3, chain), 0.0)
    assert len(server.tree) == TERMS.max_nodes


def test_log_probabilities_at_their_bounds_are_taken():
    row = TokenLogprobs(LEAST_LOGPROB, ((0, 0.0), (VOCAB - 1, LEAST_LOGPROB)))
    check_logprobs(Commit(0, 3, (1,), 0, (row,)), Settings(9, top_logprobs=2), VOCAB)


def test_more_likeliest_tokens_than_there_are_is_all_of_them():
    row = TokenLogprobs(0.0, tuple((token, -1.0) for token in range(VOCAB)))
    check_logprobs(Commit(0, 3, (1,), 0, (row,)), Settings(9, top_logprobs=VOCAB + 1), VOCAB)


def test_an_acknowledgement_names_a_token_that_is_there():
    server = session()
    run_pass(server, [4])
    for frontier in (1, 4):
        assert server.receive(Ack(0, frontier), 2.0) == ()
    for frontier in (0, 5):
        with pytest.raises(PeerError, match=f"an Ack names frontier {frontier}"):
            server.receive(Ack(0, frontier), 2.0)


@pytest.mark.parametrize(("keep", "tokens"), [(0, (2,)), (4, (2,)), (4, ())])
def test_a_turn_may_keep_nothing_or_everything(keep, tokens):
    server = session()
    run_pass(server, [END])
    before = tuple(server.tree.tokens)
    server.receive(Extend(1, keep, tokens, Settings(5)), 2.0)
    assert tuple(server.tree.tokens) == before[:keep] + tokens


@pytest.mark.parametrize("keep", [-1, 5])
def test_a_turn_cannot_keep_what_is_not_there(keep):
    server = session()
    run_pass(server, [END])
    with pytest.raises(PeerError, match=f"an Extend keeps {keep} of 4 tokens"):
        server.receive(Extend(1, keep, (2,), Settings(5)), 2.0)


def test_a_rebuilt_session_whose_answer_is_as_long_as_was_asked_for_is_finished():
    def replies(answer):
        asked = open_frame(tokens=(1, 2, 3, *answer), prompt_length=3, settings=Settings(3))
        return ServerSession(asked, TERMS, 0.0).opening_replies()[1:]

    assert replies((4, 5)) == ()
    assert replies((4, 5, 4)) == (Finished(0, 6, FinishReason.LENGTH),)


def test_the_servers_own_nodes_come_of_a_sequence_that_there_was():
    tree = TokenTree([1, 2])
    for frontier in (0, 3):
        with pytest.raises(MisuseError, match=f"nodes were drafted from {frontier} tokens"):
            tree.add_server_drafted(frontier, [Proposal(0, 3, -1.0)])
    assert len(tree) == 0
    assert tree.add_server_drafted(2, [Proposal(0, 3, -1.0)])


def client(request: StateRequest | None = None) -> ClientSession:
    limits = Limits(fingerprint="f", vocab_size=VOCAB, context=20, max_nodes=4)
    session = ClientSession("s", limits, request)
    session.open((1, 2), Settings(max_new_tokens=10))
    session.receive(Opened("s"))
    return session


def test_every_token_of_the_vocabulary_may_be_proposed_and_committed():
    tokens = (0, VOCAB - 1)
    grown = client().propose(2, [Proposal(0, token, -1.0) for token in tokens])
    assert grown is not None
    assert tuple(node.token for node in grown.nodes) == tokens
    assert client().receive(Commit(0, 2, tokens)) == tokens
    for token in (-1, VOCAB):
        with pytest.raises(MisuseError, match="outside the vocabulary"):
            client().propose(2, [Proposal(0, token, -1.0)])
        with pytest.raises(PeerError, match="outside the vocabulary"):
            client().receive(Commit(0, 2, (token,)))


def test_draft_state_may_reach_the_last_known_token_and_fill_a_frame():
    positions = 2
    session = client(StateRequest("d", layers=2))
    session.receive(State(0, 0, positions, "lsa", "int8", (positions, 1 << 19), bytes(100)))
    assert session.acknowledge_state() is not None


def test_what_was_drafted_without_a_link_may_fill_the_answer():
    session = client()
    session.lost()
    with pytest.raises(MisuseError, match="can be accepted unverified"):
        session.accept_unverified((3,) * (session.room + 1))
    session.accept_unverified((3,) * session.room)
    assert session.room == 0


def test_before_it_is_opened_a_session_has_nothing_to_say():
    unopened = ClientSession("s", Limits("f", VOCAB, 20, 4))
    assert (unopened.acknowledge_state(), unopened.finished, len(unopened.drafted)) == (None, None, 0)
