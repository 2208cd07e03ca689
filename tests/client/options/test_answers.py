"""What the options of an answer mean together."""

import re
from importlib.resources import files
from typing import get_args

import pytest

from client.drafting.policies import CLOUD
from client.options import answers
from client.options.answers import AnswerFlags
from common.protocol.errors import MisuseError
from common.protocol.idle import IDLE_POLICIES
from common.protocol.rules import RULES
from common.protocol.sampling import LIKELIEST, Sampling
from server.cli_options import Idle as ServerIdle


def test_an_answer_is_greedy_unless_asked_otherwise():
    asked = AnswerFlags().options()
    assert (asked.rule, asked.sampling, asked.stop, asked.seed) == ("greedy", LIKELIEST, (), None)


def test_every_wish_arrives():
    request = AnswerFlags(9, 0.5, 4, 0.9, 0.1, 1.2, 77, "speculative", ["a", "b"], "eager", "cloud")
    asked = request.options(pace=0.25)
    assert asked.sampling == Sampling(0.5, 4, 0.9, 0.1, 1.2, 77)
    assert (asked.policy, asked.max_new_tokens, asked.rule) == (CLOUD, 9, "speculative")
    assert (asked.stop, asked.idle, asked.pace) == (("a", "b"), "eager", 0.25)


def test_what_is_drawn_gets_a_seed_of_63_bits_that_is_fresh_each_time():
    drawn = [AnswerFlags(temperature=0.5).options() for _ in range(32)]
    assert {asked.rule for asked in drawn} == {"coupled"}
    seeds = {asked.sampling.seed for asked in drawn}
    assert len(seeds) == 32
    assert 1 << 50 < max(seeds) < 1 << 63
    assert AnswerFlags(temperature=0.5, seed=0).options().seed == 0


def test_a_stop_string_that_is_no_text_is_refused():
    with pytest.raises(MisuseError, match="a stop string is not valid text"):
        AnswerFlags(stop=["\udcff"]).options()


def names_in_help(alias: object) -> tuple[set[str], str]:
    """What an option completes to, and its help."""
    option = get_args(alias)[1]
    return set(option.autocompletion("")), option.help


def test_the_options_name_every_rule_and_every_idle_policy_but_the_baselines() -> None:
    rules, text = names_in_help(answers.Rule)
    assert rules == set(RULES)
    assert all(name in text for name in RULES)
    policies, text = names_in_help(answers.Idle)
    assert policies == set(IDLE_POLICIES) - {"lockstep", "colocated"}
    assert all(name in text for name in policies)
    assert all(name in get_args(ServerIdle)[1].help for name in IDLE_POLICIES)


def test_the_page_has_a_label_for_every_rule_that_differs_above_temperature_0() -> None:
    script = (files("client.endpoint") / "static" / "settings_dialog.js").read_text(encoding="utf-8")
    table = re.search(r"^const RULES = \{$(.*?)^\};$", script, re.MULTILINE | re.DOTALL)
    assert table is not None
    assert set(re.findall(r"^  (\w+):", table[1], re.MULTILINE)) == set(RULES) - {"greedy"}
