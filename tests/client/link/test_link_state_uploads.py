"""client.link.link_state: what takes long to be sent is waited for, and nothing else."""

import pytest

from client.link.link_state import LinkState
from tests.client.link.watches import brought_to, online, overdue, watch


@pytest.mark.parametrize("state", [LinkState.RESUMING, LinkState.SUSPECT])
def test_what_is_long_under_way_is_waited_for_as_long(state):
    """All of a conversation of 40,000 tokens over 256 kbit/s takes longer than a stream without it is waited for."""
    link = brought_to(LinkState.RESUMING) if state is LinkState.RESUMING else online()
    least = link.due if state is LinkState.RESUMING else 1.0
    link.sent(160_000, 0.1)
    if state is LinkState.SUSPECT:
        overdue(link)
    assert link.due - least >= 8.0


def test_a_frame_of_the_last_answer_says_nothing_of_a_long_prompt():
    link = online()
    link.rest()
    link.expect(10.0)
    link.sent(160_000, 10.0)
    link.heard(10.05)
    overdue(link)
    assert link.due >= 20.0


def test_the_answer_to_a_probe_says_that_all_before_it_has_come():
    link = online()
    link.sent(160_000, 0.1)
    link.answered(link.probed(0.2), 0.3)
    link.heard(0.3)
    since = overdue(link)
    assert link.due - since <= 2.0


def test_what_is_sent_behind_a_probe_may_still_be_under_way():
    link = online()
    number = link.probed(0.1)
    link.sent(160_000, 0.1)
    link.answered(number, 0.2)
    link.heard(0.2)
    overdue(link)
    assert link.due >= 10.0


def test_the_answer_to_an_earlier_probe_says_nothing_of_what_was_sent_before_the_latest():
    link = online()
    first = link.probed(0.1)
    link.sent(160_000, 0.1)
    link.probed(0.15)
    link.answered(first, 0.2)
    link.heard(0.2)
    overdue(link)
    assert link.due >= 10.0


def test_an_upload_is_no_round_trip():
    link = watch()
    link.retried(0.0)
    link.expect(0.0)
    link.sent(160_000, 0.0)
    link.heard(5.0)
    assert link.timeout_s <= 1.0
    since = overdue(link)
    assert link.due - since <= 4.0


def test_what_is_written_alone_does_not_prolong_the_wait():
    link = brought_to(LinkState.SUSPECT)
    due = link.due
    link.sent(16_000, due - 0.5)
    assert link.due == due


def test_the_time_of_an_upload_is_that_of_what_is_waited_for():
    link = watch()
    link.retried(0.0)
    link.expect(0.0)
    link.sent(160_000, 0.0)
    assert link.upload_s == pytest.approx(10.0)
    link.heard(1.0)
    assert link.upload_s == 0.0
    link.sent(160_000 + 32_000, 1.0)
    since = overdue(link)
    assert link.upload_s == pytest.approx(3.0 - since)
    link.broken(5.0)
    assert link.upload_s == 0.0


def test_a_stall_ends_no_upload():
    link = online()
    link.sent(160_000, 0.1)
    overdue(link)
    link.stalled(1000.0)
    assert 1010.0 <= link.due <= 1014.0


def test_a_new_stream_has_not_sent_what_the_last_one_had():
    link = online()
    link.sent(160_000, 0.1)
    link.heard(0.2)
    link.broken(5.0)
    link.retried(6.0)
    assert 2.0 <= link.due - 6.0 <= 4.0
