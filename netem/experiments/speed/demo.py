"""The demo's comparison on the virtual clock: the systems, prompts, models and link of `outrider demo`, whose stated
costs a busy machine may not keep in real time.

May know how a virtual run is assembled. It prints nothing.
"""

from pathlib import Path
from typing import Any

from client.demo.family import choose_prompts, find_family
from client.demo.systems_under_test import SYSTEMS
from client.text import chat_tokens
from common.protocol.errors import OutriderError
from common.stated_costs import StatedCosts
from netem.experiments.speed.costs import virtual_costs
from netem.experiments.speed.runs import CODE, faults_of, run_alone
from netem.experiments.speed.systems import System
from netem.experiments.speed.testbed import Testbed
from netem.links.profile import LinkProfile
from netem.virtual.client import DraftSetup, LoadedDrafts
from netem.virtual.server import load_virtual_server, pace_of


def compare_virtually(
    models: Path | None, profile: LinkProfile, prompts: int, max_new_tokens: int, seed: int, costs: StatedCosts
) -> dict[str, Any]:
    """Every answer of every system with its statistics, and the counters of each system's server.

    Raises OutriderError where the models are incomplete, an answer is incomplete or a drafter failed.
    """
    family = find_family(models)
    server = load_virtual_server(family.target, [family.draft])
    tokenizer = server.offer.tokenizer
    asked = [
        chat_tokens(tokenizer, [{"role": "user", "content": prompt}])
        for prompt in choose_prompts(family.prompts, prompts, seed)
    ]
    testbed = Testbed(server, LoadedDrafts(server), {CODE: asked})
    draft = DraftSetup(family.draft.name)
    systems = {name: System(name, policy, "", draft if policy.drafts else None) for name, policy in SYSTEMS.items()}
    both_ends = costs.draft_seconds, pace_of(costs)
    runs = {
        name: run_alone(testbed, profile, system, asked, max_new_tokens, *both_ends) for name, system in systems.items()
    }
    if faults := faults_of(list(runs.values())):
        raise OutriderError(f"on the virtual clock, {faults[0]}")
    return {
        "clock": "virtual",
        "stated_costs": virtual_costs(costs),
        "systems": {
            name: {
                "answers": [
                    {
                        "token_ids": list(timed.answer.tokens),
                        "finish_reason": timed.answer.finish_reason,
                        "stats": timed.answer.stats.as_dict(),
                    }
                    for timed in run.answers
                ],
                "server": run.counters.summary(),
            }
            for name, run in runs.items()
        },
    }
