"""`first-token`: the time to the first token against the prompt's length and the link, on the virtual clock."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from client.errors import BrokenOffError
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.compared_drafts import find_model_paths
from netem.experiments.speed.first_token_prompts import cut_prompts, long_texts
from netem.experiments.speed.first_token_report import JUDGED, Place, Waits, make_report
from netem.experiments.speed.ground import Ground, open_ground
from netem.experiments.speed.runs import Asker, drawn
from netem.experiments.speed.systems import AUTO, CLOUD_DECODING, EAGER, LOCKSTEP_MOA, System
from netem.links.profile import LinkProfile
from netem.links.profiles import find_profile
from netem.virtual.clock import run_virtually

COMPARED = (CLOUD_DECODING, LOCKSTEP_MOA, EAGER, AUTO)

_TOKENS = 96
"""Of the answer that is asked for; it is not waited for."""

_APART = 20.0
"""Seconds between questions, longer than any first token takes, so that all systems ask at the same moments."""


class _HeardError(Exception):
    """The first token has come, and nothing more is wanted."""


@dataclass(frozen=True)
class Extent:
    """Every one of `prompts` texts is asked on `draws` draws of each link, where a promise is judged on more."""

    links: Sequence[str]
    lengths: Sequence[int]
    prompts: int
    draws: int
    draws_judged: int

    def draws_at(self, place: Place) -> int:
        return self.draws_judged if place == JUDGED else self.draws


FULL = Extent(("5g", "4g", "lte-drive", "cell-edge", "satellite"), (60, 250, 500, 1000), 5, draws=5, draws_judged=30)
QUICK = replace(FULL, links=("4g", "satellite"), lengths=(60, 1000), prompts=3, draws=3, draws_judged=6)


async def measure(request: Request, advance: Advance) -> Report:
    extent = QUICK if request.quick else FULL
    ground = await asyncio.to_thread(open_ground, request, 1)
    texts = long_texts(find_model_paths(request).prompts, extent.prompts, request.seed)
    cut = [cut_prompts(ground.datacenter.offer.tokenizer, text, extent.lengths) for text in texts]
    prompts = {length: [each[length] for each in cut] for length in extent.lengths}
    return make_report(await run_all(ground, extent, prompts, advance), extent.prompts)


async def run_all(
    ground: Ground, extent: Extent, prompts: Mapping[int, Sequence[Sequence[int]]], advance: Advance
) -> Waits:
    places = [Place(link, length) for link in extent.links for length in extent.lengths]
    waits: dict[Place, dict[str, list[float]]] = {place: {} for place in places}
    for number, place in enumerate(places):
        for turn, system in enumerate(COMPARED):
            advance(f"{place}, {system.name}", (number + turn / len(COMPARED)) / len(places))
            # In a thread: the virtual clock has an event loop of its own.
            waits[place][system.name] = await asyncio.to_thread(
                first_tokens, ground, find_profile(place.link), system, prompts[place.length], extent.draws_at(place)
            )
    return waits


def first_tokens(
    ground: Ground, profile: LinkProfile, system: System, prompts: Sequence[Sequence[int]], draws: int
) -> list[float]:
    """Seconds from asking to the first commit, for every prompt on every draw of the link, alone on the server."""
    questions = [tokens for _ in range(draws) for tokens in prompts]

    async def main() -> list[float]:
        clock = asyncio.get_running_loop().time
        waits: list[float] = []
        async with ground.datacenter.serve() as engine:
            asker = Asker(ground, engine, system, system.options(_TOKENS))
            for number, tokens in enumerate(questions):
                waits.append(await first_token(asker, drawn(profile, number), tokens))
                await asyncio.sleep((number + 1) * _APART - clock())
        return waits

    return run_virtually(main())


async def first_token(asker: Asker, profile: LinkProfile, tokens: Sequence[int]) -> float:
    """Seconds from asking to the first commit. Raises BrokenOffError where there is none."""
    clock = asyncio.get_running_loop().time

    def watch(committed: Sequence[int], provisional: Sequence[int]) -> None:
        if committed:
            raise _HeardError

    asked = clock()
    try:
        answer = await asker.ask(profile, tokens, watch)
    except _HeardError:
        return clock() - asked
    raise BrokenOffError(answer.failure or "it ended without a token")
