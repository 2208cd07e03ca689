"""The real models on the virtual clock: acceptance recorded from them, and speeds to compare with the simulation.

May know the testbed and how a virtual run is assembled. It may not know fleets or tables.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from client.demo.asking import ignore_tokens
from client.stats import per
from netem.experiments.capacity.acceptance import (
    Logps,
    Offer,
    Recording,
    RecordingDrafter,
    make_recording,
)
from netem.experiments.speed.runs import Asker, drawn, whole
from netem.experiments.speed.systems import EAGER, System
from netem.experiments.speed.testbed import Testbed
from netem.links.profile import LinkProfile
from netem.virtual.client import ask
from netem.virtual.clock import run_virtually

Prompt = Sequence[int]


@dataclass
class _Recorder:
    answers: list[tuple[int, Sequence[Offer | None]]] = field(default_factory=list)
    beside: list[Logps] = field(default_factory=list)


def record(testbed: Testbed, link: LinkProfile, prompts: Sequence[Prompt], new_tokens: int) -> Recording:
    """What the clients' draft model offers during `eager` answers of one client, one prompt after the other."""
    recorder = _Recorder()

    async def main() -> None:
        async with testbed.server.serve() as engine:
            for number, prompt in enumerate(prompts):
                drafter = testbed.drafter(EAGER.draft)
                assert drafter is not None
                recording = RecordingDrafter(drafter)
                options = EAGER.options(new_tokens)
                answer = whole(await ask(engine, testbed.server, drawn(link, number), prompt, options, recording))
                offers, beside = recording.recorded(prompt, answer.tokens)
                recorder.answers.append((len(prompt), offers))
                recorder.beside += beside

    run_virtually(main())
    return make_recording(recorder.answers, recorder.beside)


def tokens_per_client_second(
    testbed: Testbed, link: LinkProfile, system: System, clients: int, prompts: Sequence[Prompt], new_tokens: int
) -> float:
    """The mean speed of `clients` of one replica that each ask every `clients`-th prompt, one after the other."""

    async def main() -> float:
        async with testbed.server.serve() as engine:

            async def attend(number: int) -> list[tuple[int, float]]:
                asker = Asker(testbed, engine, system, system.options(new_tokens))
                answers = [
                    whole(await asker.ask(drawn(link, number, turn), prompt, ignore_tokens))
                    for turn, prompt in enumerate(prompts[number::clients])
                ]
                return [(answer.stats.tokens, answer.stats.seconds) for answer in answers]

            attended = await asyncio.gather(*(attend(number) for number in range(clients)))
            spent = [each for client in attended for each in client]
            return per(sum(tokens for tokens, _ in spent), sum(seconds for _, seconds in spent))

    return run_virtually(main())
