"""The log of the link for programs: each change of state with its time, failed attempts left out."""

from client.link.link_log import LinkLog
from client.link.link_state import LinkState


def logged(*changes: tuple[float, LinkState]) -> list[dict]:
    now = 100.0
    log = LinkLog(lambda: now)
    for seconds, state in changes:
        now = 100.0 + seconds
        log(state)
    return log.as_list()


def test_changes_are_told_with_seconds_since_the_beginning():
    assert logged((0.25, LinkState.ONLINE), (1.50049, LinkState.SUSPECT)) == [
        {"seconds": 0.25, "state": "online"},
        {"seconds": 1.5, "state": "suspect"},
    ]
    assert logged() == []


def test_of_tries_that_failed_nothing_is_kept():
    outage = [(2.0, LinkState.OFFLINE)]
    for attempt in range(5):
        outage += [(3.0 + attempt, LinkState.RESUMING), (3.5 + attempt, LinkState.OFFLINE)]
    states = logged((0.0, LinkState.ONLINE), *outage, (9.0, LinkState.RESUMING), (9.5, LinkState.ONLINE))
    assert states == [
        {"seconds": 0.0, "state": "online"},
        {"seconds": 2.0, "state": "offline"},
        {"seconds": 9.0, "state": "resuming"},
        {"seconds": 9.5, "state": "online"},
    ]


def test_a_first_try_that_failed_is_kept():
    assert [each["state"] for each in logged((1.0, LinkState.RESUMING), (2.0, LinkState.OFFLINE))] == [
        "resuming",
        "offline",
    ]
