"""The stated limit of the server's memory, as an operator reads it."""

from dataclasses import replace

from common.counted import format_bytes
from server.security.memory_ceiling import Ceiling, TargetMemory

ONE = TargetMemory("one", 2 * 10**9, 10**9, 32768, 0, running=12, own_drafters=16, own_drafts_bytes=10**8)
TWO = replace(ONE, model="two", cache_bytes=5 * 10**8, cache_tokens=8192)
CEILING = Ceiling((ONE, TWO), sessions=16, connections=100)


def test_it_says_what_of_the_cache_is_of_no_use() -> None:
    assert str(ONE).endswith("12 answers at a time")
    told = str(replace(ONE, unused_tokens=1000))
    assert told == f"{ONE}; 1,000 tokens that were asked for are left out, for these sessions can use no more"


def test_nothing_is_said_of_drafts_that_have_no_weights() -> None:
    told = str(replace(ONE, weights_bytes=140 * 10**9, own_drafts_bytes=0))
    assert told == "1.0 GB of K/V for 32,768 tokens, 140.0 GB of weights, 12 answers at a time"


def test_one_answer_and_one_session_are_singular() -> None:
    assert str(replace(ONE, running=1)).endswith(", 1 answer at a time")
    assert "; at most 1 session, and " in str(replace(CEILING, sessions=1))


def test_it_says_what_each_target_takes_and_sums_it_for_machines() -> None:
    told, figures = str(CEILING), CEILING.as_dict()
    weights = "2.0 GB of weights, 0.1 GB of its drafts' weights"
    assert told.startswith(f"one: 1.0 GB of K/V for 32,768 tokens, {weights}, 12 answers at a time; ")
    assert "; two: 0.5 GB of K/V for 8,192 tokens, 2.0 GB of weights, " in told
    assert f"; at most 16 sessions, and {format_bytes(CEILING.strangers_bytes)} for clients without one; " in told
    assert told.endswith("; 83.9 MB for each constraint, 10 of them without a session")
    assert (figures["constraints"], figures["constraint_bytes"]) == (10, 80 * 2**20)
    assert (figures["weights_bytes"], figures["cache_tokens"], figures["sessions"]) == (4 * 10**9, 40960, 16)
    assert (figures["own_drafters"], figures["own_drafts_bytes"]) == (32, 2 * 10**8)
    assert [target["cache_tokens"] for target in figures["targets"]] == [32768, 8192]  # type: ignore[attr-defined]
