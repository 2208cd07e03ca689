"""Quotas: what one client may use, and when it may retry."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.protocol.messages import FailureCode
from server.refusal import AdmissionRefusedError, RefusalReason
from server.sessions.quotas import Allowance, Bucket, Quotas


def refusal(quotas: Quotas, client: str, now: float) -> AdmissionRefusedError | None:
    try:
        quotas.check(client, now)
    except AdmissionRefusedError as error:
        return error
    return None


def test_a_bucket_begins_with_a_minutes_worth_and_fills_evenly() -> None:
    bucket = Bucket(60)
    bucket.take(60, 0.0)
    assert bucket.wait(0.0) == pytest.approx(1.0)
    assert bucket.wait(0.4) == pytest.approx(0.6)
    assert bucket.wait(1.0) == 0.0
    bucket.take(1, 100.0)
    assert bucket.wait(100.0) == 0.0


def test_what_was_taken_beyond_it_is_owed() -> None:
    bucket = Bucket(60)
    bucket.take(180, 0.0)
    assert bucket.wait(0.0) == pytest.approx(121.0)
    assert bucket.wait(121.0) == pytest.approx(0.0)


@given(
    st.integers(1, 10_000),
    st.lists(st.tuples(st.floats(0, 30), st.integers(0, 5000)), max_size=30),
)
def test_whoever_waits_for_as_long_as_is_said_finds_one_and_nobody_gets_more_than_is_there(
    per_minute: int, takes: list[tuple[float, int]]
) -> None:
    bucket, now, taken = Bucket(per_minute), 0.0, 0
    for pause, amount in takes:
        now += pause
        if bucket.wait(now) == 0.0:
            bucket.take(amount, now)
            taken += amount
            # The last request may overdraw: it was admitted with one token left.
            assert taken - amount <= per_minute * (1 + now / 60) + 1e-6
    assert bucket.wait(now + bucket.wait(now)) == pytest.approx(0.0, abs=1e-6)


def test_requests_and_tokens_are_counted_for_each_client_alone() -> None:
    quotas = Quotas({"few": Allowance(requests_per_minute=2), "short": Allowance(tokens_per_minute=100)})
    for _ in range(5):
        for client in ("few", "short", "nobody"):
            quotas.requested(client, 0.0)
    quotas.used("few", 10_000, 0.0)
    few = refusal(quotas, "few", 0.0)
    assert few is not None
    assert (few.reason, few.code) == (RefusalReason.QUOTA_REQUESTS, FailureCode.QUOTA)
    assert few.retry_after == pytest.approx(4 * 30)
    assert str(few) == "'few' has used up its requests, 2 a minute; come back in 120 s"
    assert refusal(quotas, "short", 0.0) is None
    quotas.used("short", 130, 0.0)
    short = refusal(quotas, "short", 0.0)
    assert short is not None
    assert (short.reason, short.retry_after) == (RefusalReason.QUOTA_TOKENS, pytest.approx(31 * 0.6))
    assert "its tokens, 100 a minute; come back in 19 s" in str(short)
    assert refusal(quotas, "short", short.retry_after + 0.001) is None
    assert refusal(quotas, "nobody", 0.0) is None


def test_sessions_have_no_limit_unless_one_is_written_down() -> None:
    quotas = Quotas({"few": Allowance(max_sessions=2), "many": Allowance()})
    assert [quotas.max_sessions(client) for client in ("few", "many", "nobody")] == [2, math.inf, math.inf]


def test_of_what_could_not_be_exchanged_for_long_a_minutes_worth_counts_and_what_is_owed() -> None:
    bucket = Bucket(60)
    for minute in range(10):
        bucket.take(50, 60.0 * minute)
    offered = bucket.offer(540.0)
    assert offered is not None
    assert (offered.most, offered.total) == (60, 500)
    bucket.take(70, 540.0)
    offered = bucket.offer(540.0)
    assert offered is not None
    assert (offered.level, offered.most) == (-60, 120)


@given(st.integers(1, 1000), st.floats(-2000, 0), st.floats(0, 60), st.lists(st.integers(1, 5000), min_size=1))
def test_all_that_was_used_within_a_minute_of_an_exchange_counts(
    per_minute: int, level: float, pause: float, takes: list[int]
) -> None:
    bucket = Bucket(per_minute)
    bucket.offer(0.0)
    bucket.agree(level, 0.0)
    for amount in takes:
        bucket.take(amount, pause)
    offered = bucket.offer(pause)
    assert offered is not None
    assert offered.used == sum(takes)
    assert offered.used <= offered.most + 1e-6


def test_the_level_of_all_replicas_is_that_of_when_it_is_heard_less_what_was_used_meanwhile() -> None:
    bucket = Bucket(60)
    bucket.take(1, 0.0)
    bucket.offer(0.0)
    bucket.take(2, 5.0)
    bucket.agree(1.0, 10.0)
    assert bucket.wait(10.0) == pytest.approx(2.0)
    offered = bucket.offer(10.0)
    assert offered is not None
    assert offered.used == 2, "of what was offered before nothing counts again"


class Sharing:
    """A level that replicas share, and theirs, on one clock."""

    def __init__(self, replicas: int, per_minute: int):
        self.buckets = [Bucket(per_minute) for _ in range(replicas)]
        self._together = Bucket(per_minute)
        self._counted = [0.0] * replicas

    def exchange(self, index: int, now: float, *, arrives: bool = True, returns: bool = True) -> None:
        bucket = self.buckets[index]
        offered = bucket.offer(now)
        if not arrives:
            return
        if offered is not None:
            self._together.take(min(offered.most, offered.total - self._counted[index]), now)
            self._counted[index] = offered.total
        if not returns:
            return
        together = self._together.offer(now)
        bucket.agree(None if together is None else together.level, now)


STEPS = st.lists(
    st.tuples(st.sampled_from(("take", "exchange", "lost", "unanswered")), st.integers(0, 2), st.floats(0, 10)),
    max_size=60,
)


@given(st.integers(1, 30), STEPS)
def test_replicas_that_exchange_after_every_request_admit_as_many_as_one(
    per_minute: int, steps: list[tuple[str, int, float]]
) -> None:
    sharing, alone, now = Sharing(3, per_minute), Bucket(per_minute), 0.0
    for _, index, pause in steps:
        now += pause
        sharing.exchange(index, now)
        together, apart = sharing.buckets[index].wait(now), alone.wait(now)
        assert together == pytest.approx(apart, abs=1e-6)
        if apart == 0.0 and together == 0.0:
            sharing.buckets[index].take(1, now)
            alone.take(1, now)
            sharing.exchange(index, now)


@given(st.integers(1, 30), STEPS)
def test_whatever_is_lost_no_replica_admits_more_than_one_alone_and_all_agree_in_the_end(
    per_minute: int, steps: list[tuple[str, int, float]]
) -> None:
    sharing, now, taken = Sharing(3, per_minute), 0.0, [0, 0, 0]
    for action, index, pause in steps:
        now += pause
        if action == "take" and sharing.buckets[index].wait(now) == 0.0:
            sharing.buckets[index].take(1, now)
            taken[index] += 1
            assert taken[index] <= per_minute * (1 + now / 60) + 1
        elif action != "take":
            sharing.exchange(index, now, arrives=action != "lost", returns=action != "unanswered")
    for _ in range(2):
        for index in range(3):
            sharing.exchange(index, now)
    waits = [bucket.wait(now) for bucket in sharing.buckets]
    assert waits == pytest.approx([waits[0]] * 3, abs=1e-6)
    if sum(taken) >= per_minute * (1 + now / 60):
        assert waits[0] > 0.0, "what was used anywhere is known everywhere"
