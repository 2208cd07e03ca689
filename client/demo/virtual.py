"""The demo's comparison on the virtual clock, whose figures are the same however busy this machine is.

The lab computes it in a process of its own; here it is asked for and read.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from client.answer import Answer
from client.demo.children import running
from client.demo.comparison import Answers
from client.errors import DemoError
from client.stats import Stats


@dataclass(frozen=True, slots=True)
class VirtualRun:
    """Each system's answers, and what its server counted at the stated costs."""

    answers: Answers
    counters: Mapping[str, Mapping[str, Any]]
    stated_costs: Mapping[str, float]


async def compare_virtually(
    models: Path | None, profile: str, prompts: int, max_new_tokens: int, seed: int, cost_factor: float
) -> VirtualRun:
    """Raises DemoError if the lab fails."""
    with TemporaryDirectory(prefix="outrider-demo-") as folder:
        out = Path(folder) / "virtual.json"
        asked = ("--prompts", str(prompts), "--max-new-tokens", str(max_new_tokens), "--seed", str(seed))
        arguments = (*asked, "--cost-factor", str(cost_factor))
        family = () if models is None else ("--models", str(models))
        async with running("outrider-lab", "demo", profile, "--out", str(out), *arguments, *family) as lab:
            await lab.finished()
        return read_run(out)


def read_run(file: Path) -> VirtualRun:
    """What the lab wrote. Raises DemoError if it is of another version."""
    try:
        reported = json.loads(file.read_text(encoding="utf-8"))
        systems = reported["systems"]
        answers = {name: [_answer(each) for each in system["answers"]] for name, system in systems.items()}
        counters = {name: system["server"] for name, system in systems.items()}
        return VirtualRun(answers, counters, reported["stated_costs"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DemoError("outrider-lab printed no readable result; install one version of all commands") from error


def _answer(reported: Mapping[str, Any]) -> Answer:
    return Answer(tuple(reported["token_ids"]), reported["finish_reason"], Stats(**reported["stats"]))
