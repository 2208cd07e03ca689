"""Links in each state, for tests. Makes no assertions but that the state is reached."""

from client.link.link_state import LinkAction, LinkState, LinkWatch


def watch(uniform=0.0) -> LinkWatch:
    return LinkWatch(lambda: uniform)


def online(round_trip=0.05) -> LinkWatch:
    """A link on which a frame arrived at that time, having begun at 0."""
    link = watch()
    link.retried(0.0)
    link.expect(0.0)
    link.heard(round_trip)
    return link


def brought_to(state: LinkState) -> LinkWatch:
    link = watch()
    if state is not LinkState.OFFLINE:
        link.retried(0.0)
        link.expect(0.0)
    if state in (LinkState.ONLINE, LinkState.SUSPECT):
        link.heard(0.05)
    if state is LinkState.SUSPECT:
        overdue(link)
    assert link.state is state
    return link


def overdue(link: LinkWatch) -> float:
    """Stays silent until the link is suspect; returns when it became so."""
    now = link.due
    assert link.tick(now) is LinkAction.PROBE
    link.probed(now)
    now = link.due
    assert link.tick(now) is LinkAction.PROBE
    return now
