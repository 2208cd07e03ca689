"""Sampling is exact whatever is drafted and whatever the link does: `speculative` keeps the target's distribution,
`coupled` its very tokens."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.protocol.messages import Settings
from common.protocol.rules import exact
from common.protocol.rules.verify_input import VerifyInput
from common.protocol.sampling import Sampling
from tests.chances import misfit
from tests.common.protocol.fakes import END, VOCAB, terms
from tests.common.protocol.joined import LinkFaults
from tests.common.protocol.laws import Law, random_law, sequence_chances
from tests.common.protocol.rules.rows import Samples, seeded_choice
from tests.common.protocol.sampled import Coupled, Drafting, Drawing, offers_of

PROMPT = [1]
SAMPLING = Sampling(0.9, top_k=4, top_p=0.95)
MANY_FAULTS = LinkFaults(delay=0.015, repeat=0.2, lose=0.02, restart=0.5, silent=0.3)
SERVERS = [terms(idle, max_nodes=12) for idle in ("patient", "lockstep", "eager")]

TARGET = random_law(49, VOCAB, SAMPLING, [END])
"""Three first tokens with four, three and two followers; filters leave nothing of the rest."""

STRANGER = random_law(8, VOCAB, SAMPLING, [END])


def sometimes(prefix):
    return (TARGET(prefix) + STRANGER(prefix)) / 2


def never(prefix):
    filtered_out = (TARGET(prefix) == 0) * np.arange(1.0, VOCAB + 1)
    return filtered_out / filtered_out.sum()


@dataclass(frozen=True)
class Case:
    drawn_from: Law
    drafting: Drafting
    budgets: tuple[int, ...] = (2, 3, 4, 5, 6, 7)  # the first groups hold a root and a sibling
    answers: int = 2_000
    faults: LinkFaults = MANY_FAULTS


CASES = {
    "accepted sometimes, groups that do not fit": Case(sometimes, Drafting((3,)), (3, 4), 4_000),
    "accepted sometimes, groups of many sizes": Case(sometimes, Drafting((1, 2, 3)), (5, 6, 7, 8), 4_000),
    "the drafters' own groups": Case(sometimes, Drafting(own=True), answers=3_000),
    "two drafters and phrases in one tree": Case(sometimes, Drafting(own=True, others=STRANGER), answers=4_000),
    "streams that hardly live": Case(sometimes, Drafting((2, 3)), (6, 7, 8), faults=replace(MANY_FAULTS, lose=0.2)),
    "from what has nothing to do with the target": Case(STRANGER, Drafting()),
    "always": Case(TARGET, Drafting()),
    "never": Case(never, Drafting()),
    "picked, not drawn": Case(sometimes, Drafting(certain=True)),
}


def speculate(case: Case) -> tuple[np.ndarray, Counter]:
    """How often each pair of first tokens was committed, and counts of events on the way."""
    pairs, happened = np.zeros((VOCAB, VOCAB)), Counter()
    offers = offers_of(case.drawn_from)
    for seed in range(case.answers):
        server, budget = SERVERS[seed % len(SERVERS)], case.budgets[seed % len(case.budgets)]
        joined = Drawing(server, case.faults, TARGET, offers, case.drafting, seed, budget)
        how = Settings(4, "speculative", sampling=replace(SAMPLING, seed=seed))
        (answer,) = joined.run([(0, PROMPT, how)], enough=2)
        pairs[answer[0], answer[1]] += 1
        for what in ("accepted", "left_out", "too_late", "restarts", "of_several"):
            happened[what] += getattr(joined, what)
        happened["dead"] += joined.client.tree.stale
    return pairs, happened


@pytest.mark.parametrize("name", CASES)
def test_speculative_answers_are_distributed_as_the_targets_own(name):
    pairs, happened = speculate(CASES[name])
    assert misfit(pairs, sequence_chances(TARGET, PROMPT, 2)) < 1
    assert min(happened[what] for what in ("left_out", "too_late", "restarts", "dead")) > 50
    assert (happened["accepted"] == 0) == (name == "never")
    assert (happened["of_several"] > 1_000) == (CASES[name].drafting.others is not None)


SKIES = st.builds(
    LinkFaults,
    skill=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    delay=st.sampled_from([0.001, 0.05]),
    repeat=st.sampled_from([0.0, 0.3]),
    lose=st.sampled_from([0.0, 0.02]),
    restart=st.sampled_from([0.0, 0.5]),
    silent=st.sampled_from([0.0, 0.5]),
)
SAMPLED = st.builds(
    Sampling,
    temperature=st.sampled_from([0.3, 1.0, 2.0]),
    top_k=st.sampled_from([0, 3]),
    top_p=st.sampled_from([1.0, 0.8]),
    repetition_penalty=st.sampled_from([1.0, 1.5]),
    seed=st.integers(0, 2**64 - 1),
)


def decode_plainly(law: Law, tokens: list[int], sampling: Sampling, most: int) -> list[int]:
    answer: list[int] = []
    while len(answer) < most and END not in answer:
        sequence = (*tokens, *answer)
        answer.append(seeded_choice(law(sequence), sampling.seed, len(sequence)))
    return answer


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    faults=SKIES,
    sampling=SAMPLED,
    idle=st.sampled_from(["eager", "patient"]),
    budget=st.integers(1, 20),
    turns=st.lists(st.tuples(st.integers(-8, 0), st.lists(st.integers(1, 5), min_size=1, max_size=4)), max_size=2),
)
def test_coupled_answers_are_those_of_plain_decoding_with_the_seed(seed, faults, sampling, idle, budget, turns):
    law = random_law(seed, VOCAB, sampling)
    how = Settings(15, "coupled", sampling=sampling)
    turns = [(0, PROMPT), *turns]
    joined = Coupled(terms(idle), faults, law, sampling, seed, budget)
    sequence: list[int] = []
    for (back, tokens), answer in zip(turns, joined.run([(*turn, how) for turn in turns]), strict=True):
        prompt = [*sequence[: max(0, len(sequence) + back)], *tokens]
        assert answer == decode_plainly(law, prompt, sampling, 15)
        sequence = [*prompt, *answer]


def test_coupled_first_and_second_tokens_are_distributed_as_the_targets_own_over_seeds():
    pairs = np.zeros((VOCAB, VOCAB))
    for seed in range(20_000):
        answer: list[int] = []
        while len(answer) < 2:
            before = (*PROMPT, *answer)
            asked = VerifyInput("coupled", replace(SAMPLING, seed=seed), len(before), before[-1:], (-1,))
            answer += exact.walk(asked, Samples(asked, lambda path: TARGET(before)))  # noqa: B023
        pairs[answer[0], answer[1]] += 1
    chances = sequence_chances(TARGET, PROMPT, 2)
    assert misfit(pairs.sum(axis=1), chances.sum(axis=1)) < 1
    assert misfit(pairs, chances) < 1
