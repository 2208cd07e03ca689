"""Recorded answers from a server in another process, over an emulated link of each client."""

from dataclasses import replace

import pytest

from common.protocol.errors import OutriderError
from netem.experiments.capacity import linked
from netem.experiments.capacity.linked import linked_clients, replay_process
from netem.experiments.capacity.measure import AUTO
from netem.experiments.capacity.replay import Replay
from tests.netem.experiments.capacity.recordings import answer, recording

TWO = recording(answer(*[0] * 6), answer(*[0] * 9))


async def test_every_client_has_its_own_recorded_answers_and_their_server_counts_them() -> None:
    async with linked_clients(TWO, replace(AUTO, slower=0.3), "lan", 2, backend="proxy") as clients:
        answers = await clients.play(2)
        counters = await clients.server.counters()
    replay = Replay(TWO)
    assert [len(each.tokens) for each in answers] == [replay.tokens(0)] * 2 + [replay.tokens(1)] * 2
    assert counters["sessions"] == 4
    assert counters["committed_tokens"] == 2 * (replay.tokens(0) + replay.tokens(1))


async def test_a_server_that_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linked, "_serve", print)  # which ends at once
    with pytest.raises(OutriderError, match="has ended"):
        async with replay_process(TWO, AUTO):
            pass
