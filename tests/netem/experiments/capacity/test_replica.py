"""One replica: what is answered, and how acceptance and links show in speeds and gaps."""

import asyncio
from dataclasses import replace
from itertools import count

import pytest

from client.errors import BrokenOffError
from common.protocol.errors import OutriderError
from netem.experiments.capacity import replica
from netem.experiments.capacity.measure import AUTO, COLOCATED, EAGER, PATIENT, PLAIN
from netem.experiments.capacity.replay import Replay, ReplayDrafter
from netem.experiments.capacity.replica import ReplicaLoad, answer_in_turn, run_replica
from netem.links.profiles import find_profile
from netem.virtual.server import PACE
from tests.netem.experiments.capacity.recordings import PREDICTABLE, UNPREDICTABLE

LAN, CELL_EDGE = find_profile("lan"), find_profile("cell-edge")
LOAD = ReplicaLoad(3, [LAN], seconds=1.0, begin_s=0.1)


def speed(recorded, system, link=LAN):
    return answer_in_turn(Replay(recorded), system, link, clients=2, answers=2)


def test_plain_decoding_commits_a_token_a_pass():
    run = run_replica(Replay(PREDICTABLE), PLAIN, LOAD)
    seen = run.links["lan"]
    assert seen.tokens_per_client_second == pytest.approx(1 / PACE.per_pass, rel=0.02)
    assert seen.gap_p95_s == pytest.approx(PACE.per_pass, rel=0.02)
    assert run.whole == seen
    assert run.refused == 0


def test_a_client_that_fails_ends_the_run(monkeypatch):
    asked = count()

    async def failing(*arguments):
        if next(asked) == 1:
            raise BrokenOffError("the server could not compute this answer")
        await asyncio.sleep(LOAD.seconds * 10)

    monkeypatch.setattr(replica, "ask_replayed", failing)
    with pytest.raises(BrokenOffError, match="could not compute"):
        run_replica(Replay(PREDICTABLE), PLAIN, LOAD)


def test_a_drafter_that_fails_ends_the_run(monkeypatch):
    def fail(*_):
        raise ValueError("no such row")

    monkeypatch.setattr(ReplayDrafter, "draft", fail)
    with pytest.raises(OutriderError, match="the drafter failed"):
        speed(PREDICTABLE, EAGER)


def test_what_the_draft_model_covers_is_committed_together():
    plain, unpredictable = speed(PREDICTABLE, PLAIN), speed(UNPREDICTABLE, EAGER)
    assert unpredictable == pytest.approx(plain, rel=0.1)
    for system in (EAGER, PATIENT, AUTO, COLOCATED):
        assert speed(PREDICTABLE, system) > 2 * plain


def test_the_server_drafts_only_where_the_system_says_so():
    replay, load = Replay(PREDICTABLE), replace(LOAD, clients=1, seconds=0.3)
    for system, is_assisted in ((EAGER, False), (AUTO, True), (replace(AUTO, server_drafting=False), False)):
        assert (run_replica(replay, system, load).counters.assisted_levels > 0) == is_assisted


def test_a_long_link_takes_from_the_laptops_drafts_alone():
    near, far = (speed(PREDICTABLE, EAGER, link) for link in (LAN, CELL_EDGE))
    assert far < 0.7 * near
