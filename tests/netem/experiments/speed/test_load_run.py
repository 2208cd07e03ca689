import pytest

from netem.experiments.speed.runs import quantile
from netem.virtual.server import PACE
from tests.netem.experiments.speed.fake_load_runs import run, timed


def test_latency_and_speeds_of_a_crowd():
    # The second is asked while the first is answered, and ends last.
    two = run(timed(1.0, 2.0), timed(2.0, 6.0), busy=4.0)
    assert two.latencies == [2.0, 6.0]
    assert two.mean_latency == 4.0
    assert two.seconds == 7.0
    assert two.tokens_per_second == pytest.approx(8 / 7)
    assert two.tokens_per_client_second == 1.0
    assert two.tokens_per_pass_second == 2.0
    assert two.pass_share == pytest.approx(4 / 7)


def test_what_the_server_drafts_is_work_too():
    idle, drafting = (run(timed(0.0, 2.0), busy=1.0, levels=levels) for levels in (0, 300))
    assert idle.tokens_per_work_second == idle.tokens_per_pass_second == 4.0
    assert drafting.tokens_per_pass_second == 4.0
    assert drafting.levels_per_second == 150.0
    assert drafting.tokens_per_work_second == pytest.approx(4 / (1 + 300 * PACE.per_level))


@pytest.mark.parametrize(("count", "expected"), [(1, 1), (19, 19), (20, 19), (21, 20), (40, 38), (100, 95)])
def test_p95_of_the_first_numbers(count, expected):
    assert quantile(range(count, 0, -1), 0.95) == expected


def test_everything_is_reported():
    reported = run(timed(0.0, 1.0), timed(0.0, 3.0), busy=2.0).as_dict()
    assert reported["mean_latency_seconds"] == 2.0
    assert reported["p95_latency_seconds"] == 3.0
    assert reported["tokens_per_pass_second"] == 4.0
    assert reported["server"]["sessions_per_pass"] == 2.5
