"""How long a client has waited for a server: in total, until the server sends something."""

from client.link.offline import OfflineWait


def test_waits_add_up_until_a_pass_is_told_of() -> None:
    waited = OfflineWait(passes=3)
    for _ in range(2):
        waited.add(2.0)
    assert waited.left_s(5.0, 0.0, passes=3) == 1.0
    assert waited.left_s(5.0, 0.0, passes=4) == 5.0
    waited.add(5.0)
    assert waited.left_s(5.0, 0.0, passes=4) == 0.0


def test_who_changes_the_patience_changes_what_is_left() -> None:
    waited = OfflineWait(passes=0)
    waited.add(2.0)
    assert waited.left_s(0.0, 0.0, passes=0) < 0


def test_what_an_upload_took_is_not_held_against_the_server_when_the_link_has_changed() -> None:
    waited = OfflineWait(passes=0)
    assert waited.left_s(10.0, 29.0, passes=0) == 39.0
    waited.add(15.0)
    assert waited.left_s(10.0, 0.0, passes=0) == 24.0
    assert waited.left_s(10.0, 29.0, passes=0) == 24.0
    assert waited.left_s(10.0, 0.0, passes=1) == 10.0
