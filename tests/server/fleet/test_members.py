"""What replicas say of themselves, who counts as one, and what is counted of the others."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.address import Address
from common.rpc.description import TargetIdentity
from common.rpc.description_checks import MOST_REPLICAS
from server.fleet.members import Member, alike, read_member, sessions_elsewhere

TARGET = TargetIdentity("demo", "f" * 64, {"moa": "a" * 64, "lookup": "b" * 64}, 2048, "bfloat16")
FIRST = Member("one", Address("10.0.0.1", 7070), (TARGET,), {"alice": 2})
SECOND = replace(FIRST, id="two", address=Address("10.0.0.2", 7070), sessions={"alice": 1, "bob": 3})

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
DRAFTS = st.dictionaries(TEXTS, TEXTS, max_size=3)
TARGETS = st.lists(st.builds(TargetIdentity, TEXTS, TEXTS, DRAFTS, st.integers(0, 9), TEXTS), max_size=3)


@given(TARGETS.map(tuple), st.dictionaries(TEXTS, st.integers(0, 99), max_size=3))
def test_what_a_replica_says_survives_the_store(targets, sessions) -> None:
    member = Member("one", Address("::1", 7070), targets, sessions)
    assert read_member("one", member.record()) == member


def record(**changes: object) -> str:
    return json.dumps({**json.loads(FIRST.record()), **changes})


@pytest.mark.parametrize(
    "broken",
    [
        *("", "7", "null", "{}", "[" * 100_000),
        record(address="nowhere"),
        record(address=7),
        record(address="a\nb:7070"),
        record(address="a" * 300 + ":7070"),
        record(targets=[[1, 2]]),
        record(targets=[["m", "f", ["a"]]]),
        record(computed=[]),
        record(computed=[[2048]]),
        record(computed=[["many", "bfloat16"]]),
        record(sessions={"alice": "many"}),
        record(sessions={"alice": float("inf")}),
        record(sessions=["alice"]),
    ],
)
def test_what_no_replica_wrote_is_refused(broken: str) -> None:
    assert read_member("one", record()) == FIRST
    with pytest.raises(ValueError, match="no replica of this release wrote this"):
        read_member("one", broken)


@pytest.mark.parametrize(
    ("targets", "differs"),
    [
        ((replace(TARGET, fingerprint="0" * 64),), "the target demo (ffffffffffff) is not demo (000000000000)"),
        ((replace(TARGET, drafts={"lookup": "b" * 64}),), "only one of them has the draft model 'moa'"),
        (
            (replace(TARGET, drafts={**TARGET.drafts, "moa": "c" * 64}),),
            "their draft models 'moa' differ (aaaaaaaaaaaa and cccccccccccc)",
        ),
        ((replace(TARGET, model="other"),), "the same target is called demo (ffffffffffff) and other (ffffffffffff)"),
        ((replace(TARGET, context=1024),), "one takes 2048 tokens in a sequence and the other 1024"),
        ((replace(TARGET, numerics="bfloat16 int8"),), "one computes in bfloat16 and the other in bfloat16 int8"),
        ((TARGET, TARGET), "one has 1 targets and the other 2"),
    ],
)
def test_what_differs_is_named_and_no_client_is_sent_there(targets, differs: str) -> None:
    stranger = replace(SECOND, targets=targets)
    assert FIRST.difference(stranger) == differs
    assert alike(FIRST, [stranger]) == (FIRST.address,)


def test_a_release_that_does_not_say_how_it_computes_is_known_by_the_rest() -> None:
    fields = json.loads(SECOND.record())
    del fields["computed"]
    older = read_member("two", json.dumps(fields))
    assert older.targets == (replace(TARGET, context=0, numerics=""),)
    assert not FIRST.difference(older)
    assert not older.difference(FIRST)
    assert fields["targets"] == [["demo", "f" * 64, {"moa": "a" * 64, "lookup": "b" * 64}]], "as it reads ours"


def test_replicas_are_listed_in_one_order_by_all_of_them() -> None:
    assert not FIRST.difference(SECOND)
    assert alike(FIRST, [SECOND]) == alike(SECOND, [FIRST]) == (FIRST.address, SECOND.address)


def test_of_a_replica_that_drains_the_sessions_count_and_no_client_is_sent_there() -> None:
    draining = replace(SECOND, address=None)
    assert read_member("two", draining.record()) == draining
    assert alike(FIRST, [draining]) == (FIRST.address,)
    assert alike(draining, [FIRST]) == (FIRST.address,)
    assert sessions_elsewhere(FIRST, [FIRST, draining]) == {"alice": 1, "bob": 3}


def test_sessions_of_the_others_are_added_up() -> None:
    third = replace(SECOND, id="three", address=Address("10.0.0.3", 7070))
    assert sessions_elsewhere(FIRST, [FIRST, SECOND, third]) == {"alice": 2, "bob": 6}


def test_of_more_replicas_than_clients_take_each_is_listed_by_many() -> None:
    members = [replace(FIRST, id=str(number), address=Address("10.0.0.1", number + 1)) for number in range(270)]
    lists = [alike(own, members) for own in members[:30]]
    assert {len(listed) for listed in lists} == {MOST_REPLICAS}
    assert all(own.address in listed for own, listed in zip(members, lists, strict=False))
    times = Counter(address for listed in lists for address in listed)
    assert len(times) == len(members)
    assert min(times.values()) > 15
    fewer = alike(members[0], members[:-1])
    assert len(set(fewer) ^ set(lists[0])) <= 2, "one that leaves is replaced by one"


def test_replicas_behind_one_address_are_counted_apart_and_listed_once() -> None:
    behind = replace(SECOND, address=FIRST.address)
    assert alike(FIRST, [behind]) == (FIRST.address,)
    assert sessions_elsewhere(FIRST, [FIRST, behind]) == {"alice": 1, "bob": 3}
