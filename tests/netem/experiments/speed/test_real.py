"""netem.experiments.speed.real: a server, a link and a client as processes and sockets, and one short answer."""

import pytest

from netem.experiments.experiment import Request
from netem.experiments.speed.real import rotated, start_system
from netem.experiments.speed.systems import LOCKSTEP_MOA
from netem.experiments.speed.testbed import models
from server.options import Pace
from tests.netem.links.here import needs_tun

PROMPT = [*range(40, 140)]  # more than a prefix cache takes at least
LEVEL = 0.002


@pytest.mark.parametrize("index", [0, 1, 2, 3, 7])
def test_every_index_begins_with_another_prompt_and_asks_all(index):
    prompts = [[1], [2], [3]]
    assert rotated(prompts, index)[0] == prompts[index % 3]
    assert sorted(rotated(prompts, index)) == prompts


@needs_tun
@pytest.mark.usefixtures("forked_servers")
async def test_two_clients_are_answered_alike_over_links_of_their_own():
    target, *drafts = models(Request(0, quick=True)).values()
    pace = Pace(per_pass=0.01, per_token=0.0001, per_level=0.001)
    # Whose server waits for drafts, so that levels count however busy this machine is.
    async with start_system(target, drafts, "lan", LOCKSTEP_MOA, 2, pace, LEVEL) as opened:
        await opened.warm_up(PROMPT)
        answers = await opened.play([PROMPT, PROMPT[1:]], 6)
    assert len(answers) == 4
    assert answers[0].tokens == answers[3].tokens
    assert answers[1].tokens == answers[2].tokens
    assert all(answer.levels > 0 and not answer.failure for answer in answers)
    assert opened.server.summary()["sessions"] == 2 + 4
    assert opened.server.summary()["prefix_cache_hits"] == 0, "a prompt that was asked before costs the same again"
