"""What state is sent, when, and when again: compared with a client that records what reached it."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.protocol.draft_state import StateKind, raw_bytes
from common.protocol.errors import MisuseError, PeerError
from common.protocol.state_feed import FRAME_BYTES, ORDERS, Span, StateFeed
from common.protocol.state_window import FIRST_WINDOW_BYTES

LSA = StateKind("lsa", (256,))  # 272 bytes, 15 positions to a frame of the first window
KV = StateKind("kv", (3, 2, 256))
BULKY = StateKind("hidden", (40_000,))  # one position exceeds a frame


def sent(feed: StateFeed, span: Span, now: float = 0.0) -> bool:
    return feed.sent(span, raw_bytes(feed.dtype, (span.count, *span.kind.shape)), now)


def drain(feed: StateFeed, processed: int, now: float = 1.0) -> list[Span]:
    """All that is pending, each frame acknowledged before the next is claimed."""
    spans = []
    while (span := feed.next(processed)) is not None:
        assert sent(feed, span, now)
        feed.acknowledge(feed._arrived + 1, now + 0.1)
        now += 0.2
        spans.append(span)
    return spans


def positions(spans: list[Span], kind: StateKind) -> list[int]:
    return [p for span in spans if span.kind == kind for p in range(span.start, span.start + span.count)]


def parts(span: Span) -> list[tuple[StateKind, int]]:
    return [(span.kind, position) for position in range(span.start, span.start + span.count)]


def order_of(spans: list[Span]) -> list[tuple[str, int, int]]:
    return [(span.kind.name, span.start, span.start + span.count) for span in spans]


def test_the_first_positions_then_the_newest_backwards():
    spans = drain(StateFeed([LSA], "int8"), 40)
    assert order_of(spans) == [("lsa", 0, 4), ("lsa", 25, 40), ("lsa", 10, 25), ("lsa", 4, 10)]


def test_what_was_committed_meanwhile_goes_before_what_is_older():
    feed = StateFeed([LSA], "int8")
    assert order_of(drain(feed, 4)) == [("lsa", 0, 4)]
    span = feed.next(40)
    assert (span.start, span.count) == (25, 15)
    sent(feed, span)
    feed.acknowledge(2, 0.1)
    assert order_of(drain(feed, 43)) == [("lsa", 40, 43), ("lsa", 10, 25), ("lsa", 4, 10)]


def test_what_can_wait_goes_where_nothing_else_does():
    spans = drain(StateFeed([KV, LSA], "int8", later=[KV]), 8)
    assert [name for name, _, _ in order_of(spans)] == ["lsa", "kv", "kv", "kv", "kv"]
    assert sorted(positions(spans, KV)) == list(range(8))


@pytest.mark.parametrize(("processed", "kinds"), [(10, ["lsa", "kv"]), (40, ["lsa"])])
def test_what_can_wait_leaves_half_the_window_that_nothing_else_does(processed, kinds):
    feed = StateFeed([KV, LSA], "int8", later=[KV])
    flying = dict.fromkeys(kinds, 0)
    while (span := feed.next(processed)) is not None:
        assert sent(feed, span)
        flying[span.kind.name] += raw_bytes("int8", (span.count, *span.kind.shape))
    half = FIRST_WINDOW_BYTES / 2
    assert all(flying.values())
    assert (sum(flying.values()) <= half) == ("kv" in kinds)
    assert positions(drain(feed, processed), LSA) == []


def test_the_kind_with_the_newest_pending_position_goes_first_and_ties_go_by_request():
    assert order_of(drain(StateFeed([LSA, KV], "int8"), 8)) == [
        ("lsa", 0, 8),
        ("kv", 0, 2),
        ("kv", 2, 4),
        ("kv", 6, 8),
        ("kv", 4, 6),
    ]
    assert order_of(drain(StateFeed([KV, LSA], "int8"), 2))[0][0] == "kv"


def test_prefix_order_ascends():
    spans = drain(StateFeed([LSA, KV], "int8", "prefix"), 20)
    assert positions(spans, LSA) == positions(spans, KV) == list(range(20))
    assert order_of(spans)[:3] == [("lsa", 0, 15), ("kv", 0, 2), ("kv", 2, 4)]


def test_an_order_that_nobody_knows_is_refused():
    with pytest.raises(MisuseError, match="unknown order of draft state 'random'; choose from: newest, prefix"):
        StateFeed([LSA], "int8", "random")


def test_a_position_that_exceeds_a_frame_goes_alone():
    spans = drain(StateFeed([BULKY], "float16"), 3)
    assert [span.count for span in spans] == [1, 1, 1]


def test_a_full_window_waits_for_an_acknowledgement():
    feed = StateFeed([LSA], "int8")
    in_flight = 0
    while (span := feed.next(1000)) is not None:
        in_flight += span.count * 272
        sent(feed, span)
    assert FIRST_WINDOW_BYTES - FRAME_BYTES / 4 < in_flight <= FIRST_WINDOW_BYTES
    feed.acknowledge(2, 0.1)
    assert feed.next(1000) is not None


def test_what_is_claimed_counts_as_in_flight_before_it_is_sent():
    feed = StateFeed([LSA], "int8")
    claimed = []
    while (span := feed.next(1000)) is not None:
        claimed.append(span)
    assert sum(span.count for span in claimed) * 272 <= FIRST_WINDOW_BYTES


def test_acknowledgements_repeat_harmlessly_and_cannot_run_ahead():
    feed = StateFeed([LSA], "int8")
    drain(feed, 30)
    feed.acknowledge(1, 9.0)
    with pytest.raises(PeerError, match="names 4 frames, but only 3 were sent"):
        feed.acknowledge(4, 9.0)


def test_a_claim_that_a_turn_or_a_stream_overtook_is_void_and_pending_again():
    for overtake in (lambda feed: feed.rewrite(10), lambda feed: feed.restart()):
        feed = StateFeed([LSA], "int8")
        claimed = feed.next(10)
        overtake(feed)
        assert not sent(feed, claimed)
        assert positions(drain(feed, 10), LSA) == list(range(10))


def test_what_was_not_acknowledged_when_a_turn_began_is_sent_again_and_the_rest_is_not():
    feed = StateFeed([LSA], "int8")
    sent(feed, feed.next(30))
    sent(feed, feed.next(30))
    feed.acknowledge(1, 0.1)
    feed.rewrite(20)
    feed.acknowledge(2, 0.2)  # of a frame that the client ignored
    again = positions(drain(feed, 25), LSA)
    assert Counter(again) == Counter(range(4, 25))


def test_what_is_not_processed_any_more_waits():
    feed = StateFeed([LSA], "int8")
    feed.next(8)
    feed.rewrite(8)
    assert feed.next(0) is None
    assert positions(drain(feed, 5), LSA) == [0, 1, 2, 3, 4]
    assert positions(drain(feed, 8), LSA) == [5, 6, 7]


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    kinds=st.sampled_from([(LSA,), (LSA, KV), (KV, LSA)]),
    dtype=st.sampled_from(["int8", "float16"]),
    order=st.sampled_from(list(ORDERS)),
    faults=st.booleans(),
)
def test_every_position_arrives_exactly_once_but_for_what_was_lost(seed, kinds, dtype, order, faults):
    """A client that drops frames of earlier turns and loses those of broken streams ends with all state, and receives
    twice only what the server could not know it had."""
    draw = random.Random(seed)
    feed = StateFeed(kinds, dtype, order)
    turn, processed, frontier, now = 0, 0, 0, 0.0
    claimed: list[tuple[Span, int]] = []
    down: list[tuple[Span, int]] = []  # on this stream
    up: list[int] = []
    frames = 0
    arrived: Counter[tuple[StateKind, int]] = Counter()
    unheard: list[Span] = []  # arrived, but the server does not know it yet
    excused: Counter[tuple[StateKind, int]] = Counter()  # how often the server never learnt of it

    def claim() -> None:
        span = feed.next(processed)
        if span is not None:
            assert span.start + span.count <= processed
            size = raw_bytes(dtype, (span.count, *span.kind.shape))
            assert size <= FRAME_BYTES or span.count == 1
            claimed.append((span, turn))

    def send() -> None:
        nonlocal claimed
        if claimed:
            span, of_turn = claimed.pop(0)
            if sent(feed, span, now):
                assert of_turn == turn
                down.append((span, turn))

    def arrive() -> None:
        nonlocal frames
        if down:
            span, of_turn = down.pop(0)
            frames += 1
            up.append(frames)
            unheard.append(span)
            if of_turn == turn:
                arrived.update(parts(span))

    def acknowledge() -> None:
        if up:
            feed.acknowledge(up.pop(0), now)
            unheard.pop(0)

    def process() -> None:
        nonlocal processed, frontier
        frontier += draw.randint(0, 40)
        processed = draw.randint(processed, frontier)

    def rewrite() -> None:
        nonlocal turn, processed, frontier
        if not faults:
            return
        while up:  # the client's Extend comes behind its acknowledgements
            acknowledge()
        turn += 1
        frontier = draw.randint(0, frontier)
        processed = min(processed, frontier)
        feed.rewrite(frontier)
        for kind, position in list(arrived):
            if position >= frontier:
                del arrived[kind, position]

    def restart() -> None:
        nonlocal frames
        if faults:
            feed.restart()
            for span in unheard:
                excused.update(parts(span))
            unheard.clear()
            down.clear()
            up.clear()
            frames = 0

    for _ in range(draw.randint(1, 80)):
        now += draw.random()
        draw.choice([claim, claim, send, send, arrive, arrive, acknowledge, acknowledge, process, rewrite, restart])()
    processed = frontier
    for _ in range(2000):
        now += 0.1
        for step in (claim, send, arrive, acknowledge):
            step()
    wanted = {(kind, position) for kind in kinds for position in range(frontier)}
    assert set(arrived) == wanted
    assert all(count <= 1 + excused[part] for part, count in arrived.items())
