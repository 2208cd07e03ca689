"""The settings of an answer: what the session is told, and what is refused before anything is sent."""

import math
from typing import Any

import pytest

from client.answering import AnswerOptions, find_policy
from client.drafting.policies import CLOUD, LOCKSTEP, STREAM, Policy
from common.protocol.errors import MisuseError
from common.protocol.messages import Settings
from common.protocol.rules import RULES
from common.protocol.sampling import Sampling

WARM = Sampling(0.5, top_k=3, seed=7)


def options(policy: Policy = STREAM, **settings: Any) -> AnswerOptions:
    return AnswerOptions(policy, 8, **settings)


def test_the_session_is_told_all_of_it():
    told = AnswerOptions(LOCKSTEP, 8, "coupled", sampling=WARM, stop=("a", "b")).settings()
    assert told == Settings(8, "coupled", ("a", "b"), "lockstep", WARM)
    assert options(idle="eager").settings().idle == "eager"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"rule": "luck"}, "unknown rule 'luck'; choose from: greedy, coupled, speculative, typical"),
        ({"sampling": WARM}, "the rule greedy samples nothing, but the temperature is 0.5"),
        ({"sampling": Sampling(-1.0)}, "temperature must be 0 or lie in"),
        ({"sampling": Sampling(math.nan)}, "temperature must be 0 or lie in"),
        ({"sampling": Sampling(math.inf), "rule": "coupled"}, "temperature must be 0 or lie in"),
        ({"sampling": Sampling(top_k=-1)}, "top-k must be"),
        ({"sampling": Sampling(top_p=0.0)}, "top-p must lie in"),
        ({"sampling": Sampling(top_p=math.nan)}, "top-p must lie in"),
        ({"sampling": Sampling(min_p=1.5)}, "min-p must lie in"),
        ({"sampling": Sampling(repetition_penalty=math.inf)}, "repetition-penalty must lie in"),
        ({"sampling": Sampling(seed=-1)}, "seed must be"),
        ({"stop": ("",)}, "a stop string must have"),
        ({"stop": ("x" * 513,)}, "stop strings may have at most 512 bytes together"),
        ({"stop": tuple(map(str, range(17)))}, "at most 16 stop strings"),
        ({"pace": math.nan}, "a drafted level takes a finite time"),
        ({"pace": math.inf}, "a drafted level takes a finite time"),
        ({"policy": CLOUD, "idle": "lockstep"}, "the policy 'cloud' never proposes anything"),
    ],
)
def test_what_no_server_takes_is_refused(settings, says):
    with pytest.raises(MisuseError, match=says):
        options(**settings)


def test_an_idle_policy_of_the_servers_own_is_left_to_the_server():
    assert options(idle="unheard of").settings().idle == "unheard of"


def test_only_what_is_drawn_has_a_seed():
    assert options(sampling=Sampling(seed=7)).seed is None
    assert options(rule="coupled", sampling=WARM).seed == 7
    assert options(rule="coupled", sampling=Sampling(1.0)).seed == 0


@pytest.mark.parametrize("rule", RULES)
def test_an_answer_is_lossy_where_its_rule_is_and_something_is_drawn(rule):
    assert not options(rule=rule).lossy
    if rule != "greedy":
        assert options(rule=rule, sampling=WARM).lossy == (rule == "typical")


def test_a_policy_is_found_by_its_name():
    assert find_policy("lockstep") is LOCKSTEP
    with pytest.raises(MisuseError, match="unknown policy 'magic'; choose from: stream, lockstep, cloud"):
        find_policy("magic")


@pytest.mark.parametrize("count", [0, 1 << 31])
def test_an_answer_has_a_length_that_can_be_said(count):
    with pytest.raises(MisuseError, match="max_new_tokens must be at least 1 and at most 2147483647"):
        AnswerOptions(STREAM, count)
