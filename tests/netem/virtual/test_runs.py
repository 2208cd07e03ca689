"""Whole answers in virtual time: the real client and server over emulated links, exact to the token and to the bit."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from client.answer import Answer
from client.answering import AnswerOptions
from client.drafting.policies import CLOUD, LOCKSTEP, POLICIES, STREAM, Policy
from common.drafters.drafter import Drafter
from common.pacing import WAKE_S
from common.protocol.idle import IDLE_POLICIES
from common.protocol.messages import State
from common.protocol.views import Proposal, TreeView
from netem.links.profile import Direction, LinkProfile
from netem.links.profiles import PROFILES
from netem.virtual.client import DraftSetup, LoadedDrafts, ask
from netem.virtual.clock import run_virtually
from netem.virtual.server import VirtualServer, load_virtual_server
from netem.virtual.stream import HANDLING_S
from server.options import Pace
from server.sessions.counters import Counters

Truth = Callable[[list[int], int], tuple[int, ...]]

LEVEL = 0.005
PACE = Pace(per_pass=0.03, per_token=0.0001, per_level=0.002)
PROMPTS = [[7, 9, 7, 9, 7, 9, 11], list(range(40, 75)), [5, 6, 5, 6, 5, 6, 5]]
LENGTH = 20
TWIN, MOA, LOOKUP = DraftSetup("twin"), DraftSetup("moa", 1), DraftSetup("lookup")
FLAKY, NOTHING = PROFILES["lte-flaky"], PROFILES["none"]


@dataclass(frozen=True)
class VirtualRuns:
    server: VirtualServer
    loaded_drafts: LoadedDrafts

    def run(
        self,
        asked: Sequence[tuple[list[int], Policy, str, DraftSetup | None]],
        profile: LinkProfile,
        pace: Pace = PACE,
        length: int = LENGTH,
    ) -> tuple[list[Answer], list[tuple[Any, ...]], Counters]:
        """The answers to prompts that are asked at once, all that was seen of them and when, and what was counted."""
        seen: list[tuple[Any, ...]] = []

        async def one(index: int, prompt: list[int], policy: Policy, idle: str, draft: DraftSetup | None) -> Answer:
            clock = asyncio.get_running_loop().time
            drafter = None if draft is None else self.loaded_drafts.drafter(draft)
            options = AnswerOptions(policy, length, idle=idle, pace=LEVEL)

            def watch(committed: Sequence[int], provisional: Sequence[int]) -> None:
                seen.append((clock(), index, tuple(committed), tuple(provisional)))

            return await ask(engine, self.server, profile, prompt, options, drafter, watch)

        async def everyone() -> list[Answer]:
            nonlocal engine
            async with self.server.serve(pace=pace) as engine:
                answers = await asyncio.gather(*(one(index, *each) for index, each in enumerate(asked)))
                assert len(engine.sessions) == 0
                return answers

        engine: Any = None
        return run_virtually(everyone()), seen, engine.counters


@pytest.fixture(scope="session")
def runs(server: VirtualServer, loaded_drafts: LoadedDrafts) -> VirtualRuns:
    return VirtualRuns(server, loaded_drafts)


@pytest.mark.parametrize("idle", ["eager", "patient", "assist", "auto", "colocated"])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_over_a_link_that_barely_holds_every_policy_gives_the_targets_own_answer(
    runs: VirtualRuns, truth: Truth, policy: Policy, idle: str
) -> None:
    for prompt, draft in zip(PROMPTS, (TWIN, MOA, LOOKUP), strict=True):
        (answer,), _, counters = runs.run([(prompt, policy, idle, draft)], FLAKY)
        assert answer.tokens == truth(prompt, LENGTH)
        assert not answer.note
        assert (counters.assisted_levels > 0) is IDLE_POLICIES[idle].server_drafts
        assert counters.recomputed_tokens == 0
        assert counters.failed == counters.refused == {}


@pytest.mark.parametrize(
    ("policy", "idle", "draft"),
    [(STREAM, "auto", MOA), (STREAM, "patient", TWIN), (LOCKSTEP, "", TWIN), (CLOUD, "assist", None)],
    ids=lambda each: getattr(each, "name", each),
)
def test_a_run_comes_out_the_same_to_the_last_bit(
    runs: VirtualRuns, policy: Policy, idle: str, draft: DraftSetup | None
) -> None:
    asked = [(prompt, policy, idle, draft) for prompt in PROMPTS[:2]]
    first, second = (runs.run(asked, FLAKY) for _ in range(2))
    assert first == second
    assert first[0][0].stats.seconds > 0


def test_two_clients_share_passes_and_each_gets_its_own_answer(runs: VirtualRuns, truth: Truth) -> None:
    asked = [(prompt, STREAM, "eager", TWIN) for prompt in PROMPTS[:2]]
    answers, seen, counters = runs.run(asked, PROFILES["4g"])
    assert [answer.tokens for answer in answers] == [truth(prompt, LENGTH) for prompt in PROMPTS[:2]]
    assert counters.sessions_per_pass > 1.3
    for index, answer in enumerate(answers):
        committed = [token for _, whose, tokens, _ in seen if whose == index for token in tokens]
        assert tuple(committed) == answer.tokens


def test_what_is_watched_comes_in_the_order_of_time(runs: VirtualRuns) -> None:
    _, seen, _ = runs.run([(PROMPTS[0], STREAM, "eager", TWIN)], FLAKY)
    times = [at for at, *_ in seen]
    assert times == sorted(times)


@pytest.mark.parametrize("tokens", [1, 2, 9])
@pytest.mark.parametrize("per_token", [0.0001, 0.01])
def test_plain_decoding_without_a_link_takes_the_prompts_pass_and_one_for_each_further_token(
    runs: VirtualRuns, per_token: float, tokens: int
) -> None:
    pace = Pace(per_pass=0.03, per_token=per_token)
    (answer,), _, counters = runs.run([(PROMPTS[1], CLOUD, "eager", None)], NOTHING, pace, tokens)
    expected = 2 * HANDLING_S + max(0.03, per_token * len(PROMPTS[1])) + (tokens - 1) * 0.03 + tokens * WAKE_S
    assert len(answer.tokens) == counters.passes == tokens
    assert answer.stats.seconds == pytest.approx(expected, abs=1e-5)
    assert counters.overrun_passes == 0


def test_a_link_adds_its_round_trip_once_where_the_cloud_decodes_alone(runs: VirtualRuns) -> None:
    way = Direction(delay_ms=80)
    (near,), _, _ = runs.run([(PROMPTS[0], CLOUD, "eager", None)], NOTHING)
    (far,), _, _ = runs.run([(PROMPTS[0], CLOUD, "eager", None)], LinkProfile("far", "a delay alone", way, way))
    assert far.stats.seconds - near.stats.seconds == pytest.approx(2 * 0.08, abs=1e-4)


def test_a_first_token_waits_for_no_draft_state(runs: VirtualRuns) -> None:
    """The prompt takes two passes, and the link longer for state of the first than the server for the second."""
    prompt, down = [2 + index % 250 for index in range(600)], Direction(rate_bits_per_s=200_000, delay_ms=50)
    slow = LinkProfile("slow", "a rate and a delay", Direction(delay_ms=50), down)
    firsts = []
    for policy, draft in ((CLOUD, None), (STREAM, MOA)):
        _, seen, _ = runs.run([(prompt, policy, "eager", draft)], slow, length=2)
        firsts.append(next(at for at, _, committed, _ in seen if committed))
    cloud, drafted = firsts
    assert drafted == pytest.approx(cloud, abs=0.01)


def test_a_good_draft_makes_an_answer_come_sooner_wherever_it_runs(runs: VirtualRuns) -> None:
    asked = [(CLOUD, "eager", None), (CLOUD, "assist", None), (STREAM, "eager", TWIN)]
    alone, assisted, streamed = (
        runs.run([(PROMPTS[1], policy, idle, draft)], NOTHING)[0][0].stats.seconds for policy, idle, draft in asked
    )
    assert assisted < 0.7 * alone
    assert streamed < 0.9 * alone


def test_levels_cost_what_is_stated_and_none_overruns(runs: VirtualRuns) -> None:
    (answer,), _, counters = runs.run([(PROMPTS[0], STREAM, "assist", TWIN)], PROFILES["4g"])
    assert 0 < answer.levels <= answer.stats.seconds / LEVEL + 1
    assert 0 < counters.assisted_levels <= answer.stats.seconds / PACE.per_level + 1
    assert (answer.overrun_levels, counters.overrun_levels, counters.overrun_passes) == (0, 0, 0)


class Keeping(LoadedDrafts):
    """Keeps all draft state that its drafters are given."""

    def __init__(self, server: VirtualServer):
        super().__init__(server)
        self.given: list[State] = []

    def drafter(self, draft: DraftSetup, beside: tuple[DraftSetup, ...] = ()) -> Drafter:
        drafter = super().drafter(draft, beside)
        real = drafter.draft

        def keep(view: TreeView, states: Sequence[State] = ()) -> Sequence[Proposal]:
            self.given += states
            return real(view, states)

        drafter.draft = keep  # type: ignore[method-assign]
        return drafter


def test_a_run_is_the_same_whatever_ran_before_on_the_same_loaded_models(checkpoint: Path, drafts: list[Path]) -> None:
    """Draft state of other prompts, kept by slot, was once sent instead of this one's."""
    given, prompt = [], list(range(40, 160))
    for before in ([], [prompt[::-1]]):
        server = load_virtual_server(checkpoint, drafts)
        for other in before:
            VirtualRuns(server, LoadedDrafts(server)).run([(other, STREAM, "eager", MOA)], NOTHING)
        keeping = Keeping(server)
        VirtualRuns(server, keeping).run([(prompt, STREAM, "eager", MOA)], NOTHING)
        given.append(keeping.given)
    assert given[0] == given[1]
    assert sum(state.count for state in given[0]) > len(prompt)
