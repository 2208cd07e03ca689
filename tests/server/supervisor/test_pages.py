"""All replicas on one page, told by a label, and the load that it shows."""

import pytest

from server.supervisor.pages import load_of, merged, parsed
from server.supervisor.plan import State
from server.supervisor.scaling import Load

PAGE = """\
# HELP vllm:num_requests_running Answers that passes work on.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{model_name="demo"}} {running}
vllm:num_requests_running{{model_name="small"}} 1
# HELP vllm:num_requests_waiting Answers that no pass has worked on yet.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{model_name="demo"}} 2
# HELP outrider_longest_wait_seconds Of these, the longest.
# TYPE outrider_longest_wait_seconds gauge
outrider_longest_wait_seconds{{model_name="demo"}} 0.5
outrider_longest_wait_seconds{{model_name="small"}} {running}
# HELP outrider_refused_total Streams that were told to come back later.
# TYPE outrider_refused_total counter
outrider_refused_total{{model_name="demo",reason="running"}} 5
outrider_refused_total{{model_name="demo",reason="quota_tokens"}} 70
# HELP gap_seconds Gaps.
# TYPE gap_seconds histogram
gap_seconds_bucket{{le="0.1"}} 3
gap_seconds_bucket{{le="+Inf"}} 4
gap_seconds_count 4
gap_seconds_sum 0.5
"""
PAGES = {0: parsed(PAGE.format(running=3)), 2: parsed(PAGE.format(running=4))}


def test_one_page_has_each_metric_once_and_each_replica_s_samples() -> None:
    lines = merged(PAGES, {State.SERVING: 2, State.FAILED: 1}, {2: 7}).decode().splitlines()
    assert lines.count("# TYPE vllm:num_requests_running gauge") == 1
    assert lines.count("# TYPE outrider_refused_total counter") == 1
    for expected in (
        'vllm:num_requests_running{model_name="demo",replica="0"} 3.0',
        'outrider_fleet_restarts_total{replica="0"} 0.0',
        'vllm:num_requests_running{model_name="demo",replica="2"} 4.0',
        'gap_seconds_bucket{le="+Inf",replica="2"} 4.0',
        'gap_seconds_count{replica="0"} 4.0',
        'outrider_fleet_replicas{state="serving"} 2.0',
        'outrider_fleet_restarts_total{replica="2"} 7.0',
    ):
        assert expected in lines


def test_the_load_is_that_of_all_targets_of_all_replicas_and_quotas_are_no_want_of_room() -> None:
    assert load_of(PAGES) == Load(running=9, waiting=4, longest_wait_s=4.0, waiting_of_unknown_age=0, refused=10)
    assert load_of({}) == Load()


def test_a_replica_of_an_older_version_does_not_say_how_long_its_answers_wait() -> None:
    older = "".join(line for line in PAGE.format(running=3).splitlines(keepends=True) if "longest_wait" not in line)
    assert load_of({**PAGES, 3: parsed(older)}) == Load(13, 6, longest_wait_s=4.0, waiting_of_unknown_age=2, refused=15)


def test_what_is_no_page_is_refused() -> None:
    with pytest.raises(ValueError, match=r"."):
        parsed("vllm:num_requests_running{ what")
