"""`first-token`: the time to the first token against the prompt's length and the link, on the virtual clock."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from client.errors import BrokenOffError
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.compared_drafts import find_model_paths
from netem.experiments.speed.first_token_prompts import cut_prompts, long_texts
from netem.experiments.speed.first_token_report import JUDGED, LinkAndLength, Waits, make_report
from netem.experiments.speed.runs import Asker, drawn
from netem.experiments.speed.systems import AUTO, CLOUD_DECODING, EAGER, LOCKSTEP_MOA, System
from netem.experiments.speed.testbed import Testbed, open_testbed
from netem.links.profile import LinkProfile
from netem.links.profiles import find_profile
from netem.virtual.clock import run_virtually

COMPARED = (CLOUD_DECODING, LOCKSTEP_MOA, EAGER, AUTO)

_TOKENS = 96
"""The length of the requested answers; only the first token is waited for."""

_APART_S = 20.0
"""Between requests; longer than any first token takes, so that all systems send requests at the same times."""


class _FirstTokenError(Exception):
    """Ends an answer when its first token has arrived."""


@dataclass(frozen=True)
class FirstTokenWorkload:
    """Each of `prompts` texts is sent on `draws` draws of each link, and on `draws_judged` where a promise is
    judged."""

    links: Sequence[str]
    lengths: Sequence[int]
    prompts: int
    draws: int
    draws_judged: int

    def draws_at(self, place: LinkAndLength) -> int:
        return self.draws_judged if place == JUDGED else self.draws


FULL = FirstTokenWorkload(
    ("5g", "4g", "lte-drive", "cell-edge", "satellite"), (60, 250, 500, 1000), 5, draws=5, draws_judged=30
)
QUICK = replace(FULL, links=("4g", "satellite"), lengths=(60, 1000), prompts=3, draws=3, draws_judged=6)


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL
    testbed = await asyncio.to_thread(open_testbed, request, 1)
    texts = long_texts(find_model_paths(request).prompts, workload.prompts, request.seed)
    cut = [cut_prompts(testbed.server.offer.tokenizer, text, workload.lengths) for text in texts]
    prompts = {length: [each[length] for each in cut] for length in workload.lengths}
    return make_report(await run_all(testbed, workload, prompts, advance), workload.prompts)


async def run_all(
    testbed: Testbed, workload: FirstTokenWorkload, prompts: Mapping[int, Sequence[Sequence[int]]], advance: Advance
) -> Waits:
    """Runs all systems. prompts: token ids by the length in tokens."""
    places = [LinkAndLength(link, length) for link in workload.links for length in workload.lengths]
    waits: dict[LinkAndLength, dict[str, list[float]]] = {place: {} for place in places}
    for number, place in enumerate(places):
        for turn, system in enumerate(COMPARED):
            advance(f"{place}, {system.name}", (number + turn / len(COMPARED)) / len(places))
            # In a thread: the virtual clock has an event loop of its own.
            waits[place][system.name] = await asyncio.to_thread(
                first_tokens, testbed, find_profile(place.link), system, prompts[place.length], workload.draws_at(place)
            )
    return waits


def first_tokens(
    testbed: Testbed, profile: LinkProfile, system: System, prompts: Sequence[Sequence[int]], draws: int
) -> list[float]:
    """Seconds from the request to the first commit, for every prompt on every draw of the link, one client at a
    time."""
    requests = [tokens for _ in range(draws) for tokens in prompts]

    async def main() -> list[float]:
        clock = asyncio.get_running_loop().time
        waits: list[float] = []
        async with testbed.server.serve() as engine:
            asker = Asker(testbed, engine, system, system.options(_TOKENS))
            for number, tokens in enumerate(requests):
                waits.append(await first_token(asker, drawn(profile, number), tokens))
                await asyncio.sleep((number + 1) * _APART_S - clock())
        return waits

    return run_virtually(main())


async def first_token(asker: Asker, profile: LinkProfile, tokens: Sequence[int]) -> float:
    """Seconds from the request to the first commit. Raises BrokenOffError where there is none."""
    clock = asyncio.get_running_loop().time

    def watch(committed: Sequence[int], provisional: Sequence[int]) -> None:
        if committed:
            raise _FirstTokenError

    asked_s = clock()
    try:
        answer = await asker.ask(profile, tokens, watch)
    except _FirstTokenError:
        return clock() - asked_s
    raise BrokenOffError(answer.failure or "it ended without a token")
