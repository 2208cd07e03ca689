"""Real engines behind gRPC whose passes sleep: what each replica does, and that no answer is faster than its passes."""

from dataclasses import replace

from netem.experiments.capacity.measure import EAGER, PLAIN
from netem.experiments.capacity.replay import Replay
from netem.experiments.capacity.wall_clock import time_in_turn
from netem.experiments.speed.costs import VIRTUAL_COSTS
from tests.netem.experiments.capacity.recordings import PREDICTABLE

SLOWER = 0.3
TOKENS = 40


async def test_without_drafts_every_token_is_a_pass_of_its_own_replica_and_takes_as_long() -> None:
    run = await time_in_turn(Replay(PREDICTABLE), replace(PLAIN, slower=SLOWER), clients=3, answers=4, replicas=2)
    assert [counters.sessions for counters in run.counters] == [3, 1]
    assert [counters.committed_tokens for counters in run.counters] == [3 * TOKENS, TOKENS]
    assert run.counters[1].passes == TOKENS
    assert run.tokens_per_client_second < 1000 / (SLOWER * VIRTUAL_COSTS["pass_ms"])
    assert run.late_s > 0.0, "no timer is early"


async def test_drafts_that_are_right_spare_passes_in_real_time_too() -> None:
    run = await time_in_turn(Replay(PREDICTABLE), replace(EAGER, slower=SLOWER), clients=1, answers=1, replicas=1)
    assert run.counters[0].committed_tokens == TOKENS
    assert run.counters[0].passes < TOKENS
