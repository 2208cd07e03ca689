"""The simulation's speed is that of real engines behind gRPC whose passes sleep."""

from dataclasses import replace

from netem.experiments.capacity.measure import EAGER
from netem.experiments.capacity.replay import Replay
from netem.experiments.capacity.wall_clock import time_in_turn
from tests.netem.experiments.capacity.recordings import PREDICTABLE


async def test_every_client_is_answered_in_real_time_by_its_replica() -> None:
    run = await time_in_turn(Replay(PREDICTABLE), replace(EAGER, slower=0.1), clients=3, answers=4, replicas=2)
    assert run.tokens_per_client_second > 0
    assert [counters.sessions for counters in run.counters] == [3, 1]
    assert 0.0 <= run.overrun_share <= 1.0
    assert run.late_s >= 0.0
