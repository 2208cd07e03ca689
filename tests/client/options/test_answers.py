"""What the options of an answer mean together."""

import pytest

from client.drafting.policies import CLOUD
from client.options.answers import AnswerRequest
from common.protocol.errors import MisuseError
from common.protocol.sampling import LIKELIEST, Sampling


def test_an_answer_is_greedy_unless_asked_otherwise():
    asked = AnswerRequest().options()
    assert (asked.rule, asked.sampling, asked.stop, asked.seed) == ("greedy", LIKELIEST, (), None)


def test_every_wish_arrives():
    request = AnswerRequest(9, 0.5, 4, 0.9, 0.1, 1.2, 77, "speculative", ["a", "b"], "eager", "cloud")
    asked = request.options(pace=0.25)
    assert asked.sampling == Sampling(0.5, 4, 0.9, 0.1, 1.2, 77)
    assert (asked.policy, asked.max_new_tokens, asked.rule) == (CLOUD, 9, "speculative")
    assert (asked.stop, asked.idle, asked.pace) == (("a", "b"), "eager", 0.25)


def test_what_is_drawn_gets_a_seed_of_63_bits_that_is_fresh_each_time():
    drawn = [AnswerRequest(temperature=0.5).options() for _ in range(32)]
    assert {asked.rule for asked in drawn} == {"coupled"}
    seeds = {asked.sampling.seed for asked in drawn}
    assert len(seeds) == 32
    assert 1 << 50 < max(seeds) < 1 << 63
    assert AnswerRequest(temperature=0.5, seed=0).options().seed == 0


def test_a_stop_string_that_is_no_text_is_refused():
    with pytest.raises(MisuseError, match="a stop string is not valid text"):
        AnswerRequest(stop=["\udcff"]).options()
