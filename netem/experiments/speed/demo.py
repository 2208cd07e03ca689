"""The demo's comparison on the virtual clock: the same systems, prompts, models and link as `outrider demo` has in
real time, where a busy machine cannot keep the stated costs.

May know how a virtual run is put together. It shows nothing.
"""

from pathlib import Path
from typing import Any

from client.demo.family import choose_prompts, find_family
from client.demo.systems_under_test import SYSTEMS
from client.text import chat_tokens
from common.protocol.errors import OutriderError
from netem.experiments.speed.costs import VIRTUAL_COSTS
from netem.experiments.speed.ground import Ground
from netem.experiments.speed.runs import CODE, faults_of, run_alone
from netem.experiments.speed.systems import System
from netem.links.profile import LinkProfile
from netem.virtual.datacenter import open_datacenter
from netem.virtual.laptop import Draft, Laptops


def compare_virtually(
    models: Path | None, profile: LinkProfile, prompts: int, max_new_tokens: int, seed: int
) -> dict[str, Any]:
    """Every answer of every system with its stats, and what each system's server counted.

    Raises OutriderError where the family is not whole or an answer is not sound.
    """
    family = find_family(models)
    datacenter = open_datacenter(family.target, [family.draft])
    tokenizer = datacenter.offer.tokenizer
    asked = [
        chat_tokens(tokenizer, [{"role": "user", "content": prompt}])
        for prompt in choose_prompts(family.prompts, prompts, seed)
    ]
    ground = Ground(datacenter, Laptops(datacenter), {CODE: asked})
    draft = Draft(family.draft.name)
    runs = {
        name: run_alone(
            ground, profile, System(name, policy, "", draft if policy.drafts else None), asked, max_new_tokens
        )
        for name, policy in SYSTEMS.items()
    }
    if faults := faults_of(list(runs.values())):
        raise OutriderError(f"on the virtual clock, {faults[0]}")
    return {
        "clock": "virtual",
        "stated_costs": VIRTUAL_COSTS,
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
