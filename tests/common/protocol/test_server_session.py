import math

import pytest

from common.protocol.errors import MisuseError, PeerError
from common.protocol.messages import (
    PROTOCOL_VERSION,
    Ack,
    Cancel,
    Commit,
    Extend,
    FailureCode,
    Finished,
    FinishReason,
    Grow,
    GrownNode,
    Open,
    Opened,
    Settings,
    StateAck,
    StateRequest,
)
from common.protocol.sampling import Sampling
from common.protocol.server_session import ServerSession
from tests.common.protocol.fakes import END, terms
from tests.common.protocol.rules.rows import decide

SETTINGS = Settings(max_new_tokens=20)
NAN = float("nan")
NAME = "a session's name"


def open_frame(tokens=(1, 2, 3), prompt_length=None, settings=SETTINGS, turn=0, **changes) -> Open:
    values = {"version": PROTOCOL_VERSION, "fingerprint": "f" * 64, "session": NAME}
    return Open(
        **{**values, **changes}, turn=turn, tokens=tokens, prompt_length=prompt_length or len(tokens), settings=settings
    )


def session(idle="eager", **changes) -> ServerSession:
    return ServerSession(open_frame(), terms(idle, **changes), 0.0)


def grow(frontier, *nodes, turn=0) -> Grow:
    return Grow(turn, frontier, tuple(GrownNode(*node) for node in nodes))


def run_pass(server, choices, now=1.0, budget=64):
    scheduled = server.plan(budget)
    return server.complete(scheduled, decide(scheduled.verify_input, choices), now)


def test_a_session_is_greeted_and_its_prompt_is_planned_in_chunks():
    server = session()
    assert server.opening_replies() == (Opened(NAME),)
    first = server.plan(2)
    assert (first.start, first.chain, first.verify_input) == (0, (1, 2), None)
    assert server.complete(first, [], 1.0).replies == ()
    second = server.plan(2)
    assert (second.start, second.chain) == (2, (3,))
    assert second.verify_input is not None
    assert server.complete(second, [4], 2.0).replies == (Commit(0, 3, (4,)),)


def test_a_pass_commits_the_walk_and_keeps_its_nodes():
    server = session()
    server.receive(grow(3, (1, 0, 4, -0.1), (2, 0, 5, -2.0), (3, 1, 2, -0.2)), 0.0)
    scheduled = server.plan(64)
    by_token = {token: i for i, token in enumerate(scheduled.tokens[len(scheduled.chain) :])}
    choices = [4, *[0] * scheduled.nodes]
    choices[1 + by_token[4]], choices[1 + by_token[2]], choices[1 + by_token[5]] = 2, 3, 1
    result = server.complete(scheduled, decide(scheduled.verify_input, choices), 1.0)
    assert result.replies == (Commit(0, 3, (4, 2, 3), seen=3),)
    assert result.nodes_kept == (by_token[4], by_token[2])
    assert server.processed == 5


def test_under_a_small_budget_the_likeliest_nodes_go_parents_first():
    server = session()
    run_pass(server, [4])
    server.receive(grow(4, (1, 0, 1, -3.0), (2, 0, 2, -0.1), (3, 2, 3, -0.1), (4, 3, 4, -5.0)), 0.0)
    assert list(server.plan(3).tokens) == [4, 2, 3]


def test_nodes_past_the_length_limit_are_idle():
    server = ServerSession(open_frame(settings=Settings(max_new_tokens=2)), terms(), 0.0)
    server.receive(grow(3, (1, 0, 4, -0.1), (2, 1, 4, -0.1), (3, 2, 4, -0.1)), 0.0)
    assert list(server.plan(64).tokens) == [1, 2, 3, 4]


def test_an_end_token_inside_the_walk_ends_the_answer_there():
    server = session()
    server.receive(grow(3, (1, 0, END, -0.1), (2, 1, 4, -0.1)), 0.0)
    replies = run_pass(server, [END, 4, 4]).replies
    assert replies == (Commit(0, 3, (END,), seen=2), Finished(0, 4, FinishReason.END))
    assert server.due() == math.inf


@pytest.mark.parametrize("chosen", [[END], [END, 5]])
def test_the_last_choice_of_a_pass_is_computed_again_even_where_a_node_carried_it(chosen):
    """A pass that left its nodes out, because their K/V are not finite, chooses one token: no node's K/V are kept."""
    server = session()
    server.receive(grow(3, (1, 0, END, -0.1)), 0.0)
    result = server.complete(server.plan(64), chosen, 1.0)
    assert result.replies[-1] == Finished(0, 4, FinishReason.END)
    assert len(result.nodes_kept) == len(chosen) - 1


def test_run_ahead_stops_until_the_client_speaks():
    server = session(run_ahead=3)
    for token in (1, 2, 3):
        assert server.due() < math.inf
        run_pass(server, [token])
    assert server.due() == math.inf
    server.receive(Ack(0, 4), 2.0)
    assert server.due() < math.inf


def test_run_ahead_reaches_as_far_as_the_client_is_away():
    server = session(run_ahead=3)
    # A token every 160 ms, for a client that may be a second away: nine of them in 1.5 s, and the next one.
    now, ahead = 0.0, 0
    while server.due() < math.inf and ahead < 19:
        now, ahead = now + 0.16, ahead + 1
        run_pass(server, [1], now=now)
    assert ahead == 10
    # It turns out to be 300 ms away.
    now, again = now + 0.3, 0
    server.receive(Ack(0, server.tree.frontier), now)
    while server.due() < math.inf and again < 9:
        again += 1
        run_pass(server, [1], now=now + again * 0.16)
    assert 3 < again < ahead


def test_no_client_is_so_far_away_that_run_ahead_has_no_bound():
    server = session(run_ahead=3)
    run_pass(server, [1], now=0.0)
    server.receive(Ack(0, 4), 100.0)
    now, ahead = 100.0, 0
    while server.due() < math.inf and ahead < 100:
        now, ahead = now + 0.16, ahead + 1
        run_pass(server, [1], now=now)
    assert ahead <= 10


def test_a_lockstep_session_waits_for_the_next_tree_and_not_for_what_is_left_of_the_last():
    server = session("lockstep")
    run_pass(server, [4], now=0.0)
    server.receive(grow(4, (1, 0, 3, -0.1), (2, 1, 4, -0.1), (3, 2, 4, -0.1)), 0.1)
    assert server.due() == 0.0
    run_pass(server, [3], now=0.2, budget=1)
    assert len(server.tree) == 2
    assert server.due() == math.inf
    server.receive(grow(5, (4, 3, 2, -0.1)), 0.3)
    assert server.due() == 0.2


def test_a_patient_session_waits_for_nodes_and_not_for_its_prompt():
    server = session("patient")
    assert server.due() == 0.0
    run_pass(server, [4], now=10.0)
    assert server.due() > 10.0
    server.receive(grow(4), 10.1)
    assert server.due() == 10.0


def test_a_client_that_had_nothing_to_propose_before_the_last_commit_is_waited_for_again():
    server = session("patient")
    run_pass(server, [4], now=10.0)
    server.receive(grow(3), 10.1)
    assert server.due() > 10.0


def test_cancel_finishes_once_and_a_pass_in_flight_commits_nothing_but_keeps_its_chain():
    server = session()
    server.receive(grow(3, (1, 0, 4, -0.1)), 0.0)
    scheduled = server.plan(64)
    assert server.receive(Cancel(0), 0.5) == (Finished(0, 3, FinishReason.CANCELLED),)
    assert server.receive(Cancel(0), 0.6) == ()
    result = server.complete(scheduled, [4, 4], 1.0)
    assert (result.chain_kept, result.nodes_kept, result.replies) == (True, (), ())
    server.receive(Extend(1, 3, (5,), SETTINGS), 2.0)
    assert server.plan(64).chain == (5,)


def test_a_pass_that_a_rewritten_history_overtook_is_discarded():
    server = session()
    scheduled = server.plan(64)
    server.receive(Cancel(0), 0.5)
    server.receive(Extend(1, 1, (5, 5, 5), SETTINGS), 0.6)
    assert not server.complete(scheduled, [4], 1.0).chain_kept
    assert server.plan(64).chain == (1, 5, 5, 5)


def test_a_pass_that_a_repeated_turn_overtook_leaves_the_root_to_be_processed():
    server = session()
    scheduled = server.plan(64)
    server.receive(Cancel(0), 0.5)
    server.receive(Extend(1, 3, (), SETTINGS), 0.6)
    assert not server.complete(scheduled, [4], 1.0).chain_kept
    assert run_pass(server, [4]).replies == (Commit(1, 3, (4,)),)


def test_a_pass_that_runs_while_the_stream_is_resumed_still_commits():
    server = session()
    server.receive(grow(3, (1, 0, 4, -0.1)), 0.0)
    scheduled = server.plan(64)
    server.reopen(open_frame(), 0.5)
    server.receive(grow(3, (2, 0, 4, -0.1)), 0.6)
    assert server.complete(scheduled, decide(scheduled.verify_input, [4, 5]), 1.0).replies == (
        Commit(0, 3, (4, 5), seen=2),
    )
    assert server.processed == 4, "what was judged is not computed again"


def test_the_next_turn_keeps_what_was_processed():
    server = session()
    run_pass(server, [4])
    run_pass(server, [END])
    server.receive(Extend(1, 4, (2, 3), SETTINGS), 2.0)
    scheduled = server.plan(64)
    assert (scheduled.start, scheduled.chain) == (4, (2, 3))
    assert server.complete(scheduled, [5], 3.0).replies == (Commit(1, 6, (5,)),)


def test_a_turn_that_repeats_needs_its_root_again():
    server = session()
    run_pass(server, [END])
    server.receive(Extend(1, 3, (), SETTINGS), 2.0)
    assert server.plan(64).chain == (3,)


def test_frames_of_earlier_turns_are_stale():
    server = session()
    run_pass(server, [END])
    server.receive(Extend(1, 4, (2,), SETTINGS), 2.0)
    for late in (
        grow(3, (1, 0, 4, -0.1)),
        Ack(0, 3),
        Cancel(0),
        Extend(1, 4, (2,), SETTINGS),
        Extend(0, 1, (9,), SETTINGS),
    ):
        assert server.receive(late, 3.0) == ()
    assert server.plan(64).nodes == 0
    server.receive(grow(5, (2, 1, 4, -0.1), turn=1), 3.0)
    assert server.tree.stale == 2


def test_a_resumed_stream_replays_what_the_client_missed():
    server = session()
    run_pass(server, [4])
    run_pass(server, [END])
    replies = server.reopen(open_frame((1, 2, 3), 3), 5.0)
    assert replies == (Opened(NAME), Commit(0, 3, (4,)), Commit(0, 4, (END,)), Finished(0, 5, FinishReason.END))


def test_a_client_that_knows_more_rebuilds_the_session_and_keeps_its_common_prefix():
    server = session()
    run_pass(server, [4])
    replies = server.reopen(open_frame((1, 2, 3, 4, 5, 1), 3), 5.0)
    assert replies == (Opened(NAME),)
    scheduled = server.plan(64)
    assert (scheduled.start, scheduled.chain) == (3, (4, 5, 1))


def test_a_rebuilt_session_that_holds_a_whole_answer_is_finished():
    server = ServerSession(open_frame((1, 2, 3, END), 3), terms(), 0.0)
    assert server.opening_replies() == (Opened(NAME), Finished(0, 4, FinishReason.END))


def test_an_answer_that_filled_the_context_can_be_resumed_and_rebuilt():
    full = open_frame(tuple([1] * 256), 3)
    finished = (Opened(NAME), Finished(0, 256, FinishReason.LENGTH))
    server = ServerSession(full, terms(), 0.0)
    assert server.opening_replies() == finished
    replies = server.reopen(full, 1.0)
    assert replies == finished


def test_a_finished_session_can_be_parked_and_goes_on_with_everything_to_compute():
    server = session()
    with pytest.raises(MisuseError):
        server.park()
    run_pass(server, [END])
    server.park()
    server.receive(Extend(1, 4, (2,), SETTINGS), 2.0)
    assert server.plan(64).chain == (1, 2, 3, END, 2)


def test_a_client_cannot_make_the_server_remember_endless_names():
    server = session()
    repeats = iter(range(1, 100_000))

    def repeat() -> None:
        server.receive(grow(3, *((next(repeats), 0, 4, -0.1) for _ in range(60))), 0.0)

    for _ in range(terms().max_names(0) // 60):
        repeat()
    with pytest.raises(PeerError, match="too many aliases"):
        repeat()


@pytest.mark.parametrize(
    ("changes", "code", "sentence"),
    [
        ({"version": 99}, FailureCode.VERSION, "protocol version 99"),
        ({"fingerprint": "other"}, FailureCode.MODEL, "belongs to another target"),
        ({"tokens": ()}, FailureCode.INVALID, "empty"),
        ({"tokens": (1, 6)}, FailureCode.INVALID, "outside the target's vocabulary of 6"),
        ({"tokens": (1,) * 256}, FailureCode.INVALID, "the prompt has 256 tokens"),
        ({"tokens": (1, 2), "prompt_length": 3}, FailureCode.PROTOCOL, "prompt_length 3"),
        ({"settings": Settings(-1)}, FailureCode.INVALID, "at least 0"),
        (
            {"settings": Settings(5, rule="magic")},
            FailureCode.INVALID,
            "unknown rule 'magic'; this server knows greedy",
        ),
        ({"settings": Settings(5, idle="lazy")}, FailureCode.INVALID, "unknown idle policy 'lazy'"),
        ({"settings": Settings(5, stop=("",))}, FailureCode.INVALID, "at least 1 character"),
        ({"settings": Settings(5, stop=("x" * 500, "\u00e4" * 7))}, FailureCode.INVALID, "at most 512 bytes together"),
        ({"settings": Settings(5, stop=("x",) * 17)}, FailureCode.INVALID, "at most 16 stop strings"),
        ({"state": StateRequest("other")}, FailureCode.INVALID, "no draft 'other'"),
        ({"state": StateRequest("a draft", dtype="int6")}, FailureCode.INVALID, "unknown dtype of draft state 'int6'"),
        ({"session": "short"}, FailureCode.INVALID, "16 to 64 printable ASCII"),
        ({"session": "x" * 65}, FailureCode.INVALID, "16 to 64 printable ASCII"),
        ({"session": "é" * 20}, FailureCode.INVALID, "16 to 64 printable ASCII"),
        ({"session": "a session\n\x1b[2J of mine"}, FailureCode.INVALID, "16 to 64 printable ASCII"),
        ({"state": StateRequest("\x1b[2J")}, FailureCode.INVALID, "1 to 255 printable characters"),
        ({"state": StateRequest("d" * 256)}, FailureCode.INVALID, "1 to 255 printable characters"),
        ({"state": StateRequest("")}, FailureCode.INVALID, "1 to 255 printable characters"),
        ({"state": StateRequest("a draft", dtype="\x1b" * 1000)}, FailureCode.INVALID, "dtype of draft state '…'"),
        ({"settings": Settings(5, rule="\x1b[2J" * 1000)}, FailureCode.INVALID, r"unknown rule '\[2J \[2J"),
        ({"settings": Settings(5, idle="\x1b[2J" * 1000)}, FailureCode.INVALID, r"idle policy '\[2J \[2J"),
        ({"tokens": (1,) * 257, "prompt_length": 3}, FailureCode.INVALID, "exceed the target's context"),
    ],
)
def test_an_open_that_cannot_be_served_is_refused_with_a_code(changes, code, sentence):
    with pytest.raises(PeerError, match=sentence) as refused:
        ServerSession(open_frame(**changes), terms(), 0.0)
    assert refused.value.code is code
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (open_frame(), "first frame"),
        (grow(3, (1, 7, 4, -0.1)), "never sent"),
        (grow(3, (2, 0, 4, -0.1), (1, 0, 5, -0.1)), "strictly increase"),
        (grow(3, (1, 0, 6, -0.1)), "outside the vocabulary"),
        (grow(3, (1, 0, 4, 0.5)), "log-probability"),
        (grow(3, (1, 0, 4, NAN)), "log-probability"),
        (grow(3, (1, 0, 4, -math.inf)), "log-probability"),
        (grow(4, (1, 0, 4, -0.1)), "frontier 4"),
        (grow(0, (1, 0, 4, -0.1)), "frontier 0"),
        (grow(3, turn=1), "turn 1"),
        (grow(3, *((i, i - 1, 4, -0.1) for i in range(1, 66))), "more than the 64"),
        (Ack(0, 9), "frontier 9"),
        (Cancel(3), "turn 3"),
        (StateAck(1), "no draft state was asked for"),
        (Extend(1, 1, (2,), SETTINGS), "not allowed while"),
        (Extend(2, 1, (2,), SETTINGS), "begins turn 2"),
    ],
)
def test_a_frame_that_breaks_the_protocol_is_the_clients_fault(frame, sentence):
    with pytest.raises(PeerError, match=sentence):
        session().receive(frame, 0.0)


def test_a_tree_that_outgrows_its_bound_over_several_frames_is_refused():
    server = session()
    server.receive(grow(3, *((i, i - 1, 4, -0.1) for i in range(1, 61))), 0.0)
    with pytest.raises(PeerError, match="the tree has 66 nodes"):
        server.receive(
            grow(
                3, *((60 + i, 0, i, -0.1) for i in range(1, 4)), (64, 61, 1, -0.1), (65, 61, 2, -0.1), (66, 61, 3, -0.1)
            ),
            0.0,
        )


def test_a_pass_that_ends_at_a_group_it_left_out_leaves_that_to_the_next():
    """The token that a node carried becomes the root, which the next pass computes again with its group below it."""
    settings = Settings(max_new_tokens=20, rule="speculative", sampling=Sampling(1.0))
    server = ServerSession(open_frame(settings=settings), terms(), 0.0)
    server.receive(grow(3, (1, 0, 4, -0.1), (2, 1, 2, -0.2), (3, 1, 5, -0.9)), 0.0)
    scheduled = server.plan(4)
    assert list(scheduled.tokens) == [1, 2, 3, 4]
    result = server.complete(scheduled, decide(scheduled.verify_input, [4, 2]), 1.0)
    assert (result.replies, result.nodes_kept, result.accepted) == ((Commit(0, 3, (4,), seen=3),), (), 1)
    assert (server.tree.frontier, server.processed) == (4, 3)
    scheduled = server.plan(4)
    assert (scheduled.chain, list(scheduled.tokens)) == ((4,), [4, 2, 5])
    result = server.complete(scheduled, decide(scheduled.verify_input, [5, 1, 1]), 2.0)
    assert result.replies == (Commit(0, 4, (5, 1), seen=3),)
    assert server.tree.frontier - server.processed == 1
