"""Recorded answers from a server in another process, over an emulated link of each client."""

from dataclasses import replace
from multiprocessing.connection import Connection
from types import SimpleNamespace

import pytest

from common.protocol.errors import OutriderError
from netem.experiments.capacity import linked
from netem.experiments.capacity.acceptance import Recording
from netem.experiments.capacity.linked import linked_clients, replay_process
from netem.experiments.capacity.measure import AUTO
from netem.experiments.capacity.replay import Replay
from netem.experiments.capacity.replica import ReplicaSystem
from tests.netem.experiments.capacity.recordings import answer, recording
from tests.programs import FORKS

TWO = recording(answer(*[0] * 6), answer(*[0] * 9))


@pytest.fixture(autouse=True)
def _forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server still has a process of its own, which need not import everything anew."""
    monkeypatch.setattr(linked, "multiprocessing", SimpleNamespace(get_context=lambda _: FORKS))


async def test_every_client_has_its_own_recorded_answers_and_their_server_counts_them() -> None:
    async with linked_clients(TWO, replace(AUTO, slower=0.3), "lan", 2, backend="proxy") as clients:
        answers = await clients.play(2)
        counters = await clients.server.counters()
    replay = Replay(TWO)
    assert [len(each.tokens) for each in answers] == [replay.tokens(0)] * 2 + [replay.tokens(1)] * 2
    assert counters["sessions"] == 4
    assert counters["committed_tokens"] == 2 * (replay.tokens(0) + replay.tokens(1))


async def test_a_server_that_has_ended_has_no_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linked, "_serve", _serve_nothing)
    async with replay_process(TWO, AUTO) as server:
        assert server.address == "nowhere"
        with pytest.raises(OutriderError, match="has ended"):
            await server.counters()


def _serve_nothing(recording: Recording, system: ReplicaSystem, told: Connection) -> None:
    told.send("nowhere")


async def test_a_server_that_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linked, "_serve", print)  # which ends at once
    with pytest.raises(OutriderError, match="has ended"):
        async with replay_process(TWO, AUTO):
            pass
