"""netem.links.byte_queue: room, and when it comes back."""

from netem.links.byte_queue import ByteQueue


def test_a_full_queue_takes_nothing_until_something_has_left() -> None:
    queue = ByteQueue(3000)
    for leaves_s in (1.0, 2.0):
        assert queue.has_room(1500, 0.0)
        queue.enter(1500, leaves_s)
    assert not queue.has_room(1500, 0.5)
    assert not queue.has_room(1, 0.5)
    assert queue.has_room(1500, 1.0)
    assert not queue.has_room(1501, 1.0)


def test_an_empty_queue_takes_a_packet_larger_than_itself() -> None:
    queue = ByteQueue(100)
    assert queue.has_room(1500, 0.0)
    queue.enter(1500, 1.0)
    assert not queue.has_room(1, 0.0)
    assert queue.has_room(1500, 1.0)


def test_without_a_limit_there_is_always_room() -> None:
    queue = ByteQueue(None)
    for _ in range(1000):
        queue.enter(1500, 1e9)
    assert queue.has_room(10**9, 0.0)
