"""The systems that are compared, as processes: a server, a link and a client for each."""

import pytest

from client.answering import AnswerOptions
from client.demo.family import find_family
from client.demo.systems_under_test import systems_under_test
from client.drafting.policies import CLOUD
from common.stated_costs import STATED
from netem.experiments.quiet import no_bar

PROMPT = "Write a function that adds two numbers. " * 12  # more than a prefix cache takes at least


@pytest.mark.usefixtures("forked_servers")
async def test_a_prompt_that_was_asked_before_costs_the_same_again():
    compared, steps = {"cloud": AnswerOptions(CLOUD, 4)}, []
    async with systems_under_test(
        find_family(None), "lan", STATED, compared, no_bar, lambda *step: steps.append(step)
    ) as opened:
        system = opened["cloud"]
        answers = [await system.ask(PROMPT) for _ in range(2)]
    assert answers[0].tokens == answers[1].tokens
    summary = system.server.summary()
    assert summary["prefix_cache_queries"] > 2 * 64
    assert summary["prefix_cache_hits"] == 0
    assert [doing for doing, _ in steps] == ["server of cloud", "draft of cloud", "first answer of cloud"]
