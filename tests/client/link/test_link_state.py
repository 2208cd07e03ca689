"""client.link.link_state: every transition, and timers that follow the measured round trips."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.link.link_state import TRANSITIONS, LinkAction, LinkEvent, LinkState, LinkWatch
from tests.client.link.watches import brought_to, online, overdue, watch

ONLINE, SUSPECT, OFFLINE, RESUMING = LinkState
AFTER = {
    (ONLINE, LinkEvent.HEARD): ONLINE,
    (ONLINE, LinkEvent.OVERDUE): SUSPECT,
    (ONLINE, LinkEvent.BROKEN): OFFLINE,
    (SUSPECT, LinkEvent.HEARD): ONLINE,
    (SUSPECT, LinkEvent.OVERDUE): OFFLINE,
    (SUSPECT, LinkEvent.BROKEN): OFFLINE,
    (OFFLINE, LinkEvent.BROKEN): OFFLINE,
    (OFFLINE, LinkEvent.RETRIED): RESUMING,
    (RESUMING, LinkEvent.HEARD): ONLINE,
    (RESUMING, LinkEvent.OVERDUE): OFFLINE,
    (RESUMING, LinkEvent.BROKEN): OFFLINE,
}


def test_the_table_is_the_one_that_was_designed():
    assert {(state, event): after for state, row in TRANSITIONS.items() for event, after in row.items()} == AFTER


ACTS = {
    LinkEvent.HEARD: lambda link, now: link.heard(now),
    LinkEvent.BROKEN: lambda link, now: link.broken(now),
    LinkEvent.RETRIED: lambda link, now: link.retried(now),
}


@pytest.mark.parametrize(("state", "event"), [each for each in AFTER if each[1] in ACTS])
def test_what_happens_moves_the_link_as_designed(state, event):
    link = brought_to(state)
    ACTS[event](link, 10.0)
    assert link.state is AFTER[state, event]


def test_from_every_state_the_link_can_come_back():
    for state in LinkState:
        reached, before = {state}, set()
        while reached != before:
            before = set(reached)
            reached |= {after for each in before for after in TRANSITIONS[each].values()}
        assert reached == set(LinkState)


def test_a_lively_link_is_not_probed():
    link, now = online(), 0.05
    for _ in range(100):
        now += 0.9 * link.quiet_s
        assert link.tick(now) is None
        link.heard(now)


def test_nothing_is_due_where_nothing_is_expected():
    link = online()
    link.rest()
    assert link.due == math.inf
    assert link.tick(1e9) is None
    link.expect(1e9)
    assert link.tick(1e9) is None
    assert link.tick(1e9 + link.quiet_s) is LinkAction.PROBE


@pytest.mark.parametrize("round_trip", [0.01, 0.05, 0.3, 0.7])
def test_silence_is_suspect_after_a_few_round_trips_and_given_up_after_some_more(round_trip):
    link = online(round_trip)
    for number in range(20):  # so that the round trip is known
        now = round_trip + number
        link.answered(link.probed(now), now + round_trip)
        link.heard(now + round_trip)
    last = 19 + 2 * round_trip
    suspected = overdue(link)
    assert max(0.2, round_trip) <= suspected - last <= max(0.35, 2.5 * round_trip)
    assert link.state is LinkState.SUSPECT
    assert link.tick(link.due) is LinkAction.GIVE_UP
    assert 1.0 <= link.due - suspected <= max(1.0, 6 * round_trip)


@pytest.mark.parametrize("first_frame", [1.4, 4.1])
def test_a_first_frame_that_was_late_delays_no_suspicion(first_frame):
    link = online(first_frame)
    assert overdue(link) - first_frame <= 2.0
    assert link.due - first_frame <= 6.0


def test_a_long_way_is_learnt_from_the_first_probe():
    link = online(1.5)
    now = link.due
    assert link.tick(now) is LinkAction.PROBE
    link.answered(link.probed(now), now + 1.5)
    link.heard(now + 1.5)
    assert link.timeout_s >= 1.5


def test_a_first_stream_waits_for_the_first_question_and_is_timed_from_it():
    link = watch()
    link.retried(0.0)
    assert link.tick(600.0) is None
    link.expect(600.0)
    assert link.tick(600.0) is None
    link.heard(600.05)
    assert link.state is LinkState.ONLINE
    assert link.timeout_s == online().timeout_s


def test_an_answer_that_was_read_an_hour_late_says_nothing_of_the_way():
    link = online()
    known = link.timeout_s
    number = link.probed(1.0)
    link.rest()
    link.expect(3600.0)
    link.answered(number, 3600.0)
    assert link.timeout_s == known


def test_a_probe_that_is_answered_late_on_a_stream_that_stands_is_no_round_trip():
    """A server that compiles a constraint says that the stream stands, and answers no probe before that is done."""
    link = online()
    known = link.timeout_s
    number = link.probed(1.0)
    link.answered(0, 1.2)
    link.heard(1.2)
    link.answered(number, 1.2 + known)
    assert link.timeout_s == known


def test_the_first_sign_of_life_ends_suspicion():
    link = brought_to(LinkState.SUSPECT)
    link.heard(1.0)
    assert link.state is LinkState.ONLINE
    assert link.tick(1.0) is None


def test_a_first_stream_is_believed_to_stand_and_a_lost_one_is_not():
    link = watch()
    assert not link.is_good
    link.retried(0.0)
    assert link.is_good
    link.broken(1.0)
    assert not link.is_good
    link.retried(2.0)
    assert not link.is_good
    link.heard(2.1)
    assert link.is_good


def test_a_stream_that_does_not_answer_is_given_up():
    link = online()
    link.broken(5.0)
    link.retried(6.0)
    assert link.tick(link.due - 0.01) is None
    assert link.tick(link.due) is LinkAction.GIVE_UP
    assert 2.0 <= link.due - 6.0 <= 4.0


def pauses(link: LinkWatch, until: float, wait: float = 0.0) -> list[float]:
    """The time between a break and the next attempt, beside what the server told to wait, in an outage that began at
    0."""
    now, found = 0.0, []
    while now < until:
        link.broken(now, wait)
        found.append(link.due - now - wait)
        now = link.due
        assert link.tick(now) is LinkAction.RETRY
        link.retried(now)
        now += 1.0
    return found


def test_pauses_grow_and_stay_short_for_a_minute():
    found = pauses(online(), 600.0)
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(found))
    assert found[0] <= 0.1
    assert max(found[:30]) <= 0.5
    assert 2.0 <= found[-1] <= 8.0


def test_a_server_that_says_when_to_come_back_is_asked_then_however_long_it_refuses():
    link = online()
    assert 0.0 < max(pauses(link, 600.0, wait=5.0)) <= 0.5
    pauses(link, 600.0)
    link.broken(600.0, 5.0)
    assert link.due - 605.0 <= 0.5, "also after a long outage"


def test_once_a_server_was_heard_again_the_first_pause_of_the_next_outage_is_short():
    link = online()
    pauses(link, 600.0)
    link.heard(700.0)
    link.broken(701.0)
    assert link.due - 701.0 <= 0.1


def test_clients_that_lost_a_server_together_do_not_come_back_together():
    draws = random.Random(3)
    first = []
    for _ in range(200):
        link = LinkWatch(draws.random)
        link.broken(0.0)
        first.append(link.due)
    assert len(set(first)) == 200
    assert max(first) - min(first) > 0.4 * max(first)


def test_a_person_can_hurry_it():
    link = online()
    for _ in range(5):
        link.broken(1.0)
    assert link.tick(1.0) is None
    link.retry_now()
    assert link.tick(1.0) is LinkAction.RETRY


def test_streams_that_answered_after_the_first_are_counted():
    link = online()
    assert link.reconnects == 0
    for now in (1.0, 3.0):
        link.broken(now)
        link.retried(now + 0.5)
        link.heard(now + 0.6)
        link.heard(now + 0.7)
    link.broken(5.0)
    link.retried(5.5)
    link.broken(5.6)
    assert link.reconnects == 2


@pytest.mark.parametrize("state", [ONLINE, SUSPECT, RESUMING])
def test_time_in_which_this_process_did_not_run_is_no_silence_of_the_server(state):
    link = brought_to(state)
    patience = link.due - link.silence_s(0.0)
    woken = link.due + 60.0
    link.stalled(woken)
    assert link.tick(woken) is None
    assert woken < link.due <= woken + patience
    assert link.silence_s(woken + 0.5) == pytest.approx(0.5)
    assert link.tick(link.due) is not None, "it is waited for anew, and not for ever"


@given(st.floats(0.21, 5.0))
def test_a_client_whose_timers_are_always_late_still_gives_a_dead_server_up(late):
    link = online()
    for _ in range(5):
        woken = link.due + late
        link.stalled(woken)
        match link.tick(woken):
            case LinkAction.PROBE:
                link.probed(woken)
            case LinkAction.GIVE_UP:
                return
    pytest.fail("the dead server was not given up")


@pytest.mark.parametrize("is_commit_first", [False, True])
def test_a_stop_of_the_process_is_no_round_trip_whatever_is_read_before_the_pong(is_commit_first):
    link = online()
    link.tick(link.due)
    sent = link.due
    number = link.probed(sent)
    before = link.timeout_s
    if is_commit_first:
        link.heard(sent + 30.0)
    link.answered(number, sent + 30.0)
    assert link.timeout_s <= before


EVENTS = ["heard", "broken", "silence", "stalled", "rest", "expect", "retry_now"]


@given(st.lists(st.sampled_from(EVENTS), max_size=60), st.data())
def test_whatever_happens_something_is_due_until_the_link_is_back(events, data):
    """It never waits for ever without a stream or for an answer, and never asks twice at once for the same action."""
    link, now = watch(0.5), 0.0
    link.retried(now)
    link.expect(now)
    expected = True
    for event in events:
        now += data.draw(st.floats(0, 3))
        match event:
            case "heard" if link.state is not LinkState.OFFLINE:
                link.heard(now)
            case "broken":
                link.broken(now)
            case "stalled":
                link.stalled(now)
            case "rest":
                link.rest()
            case "expect":
                link.expect(now)
            case "retry_now":
                link.retry_now()
        match link.tick(now):
            case LinkAction.PROBE:
                link.probed(now)
            case LinkAction.GIVE_UP:
                link.broken(now)
            case LinkAction.RETRY:
                link.retried(now)
        assert link.tick(now) in (None, LinkAction.PROBE)
        expected = {"rest": False, "expect": True}.get(event, expected)
        if expected or link.state is LinkState.OFFLINE:
            assert link.due < math.inf


def test_a_link_that_a_person_holds_is_not_tried_whoever_is_in_a_hurry():
    link = online()
    link.hold()
    link.broken(1.0)
    link.retry_now()
    assert (link.due, link.tick(100.0)) == (math.inf, None)
    link.release()
    assert link.tick(100.0) is LinkAction.RETRY
