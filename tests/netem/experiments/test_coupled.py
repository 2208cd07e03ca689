"""The reference and the server's code agree on a small model; the report tells what is identical."""

from collections import Counter

import torch

from common.draft_kinds import STATELESS_KINDS
from common.drafters.lookup import LookupDrafter
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.protocol.sampling import Sampling
from common.rounds import Rounds
from netem.experiments import coupled
from netem.experiments.catalogue import find_experiment
from netem.experiments.coupled import SYSTEMS, SampledReference, make_report
from netem.experiments.experiment import Request
from netem.experiments.references import SAMPLINGS, Reference, sampled_answer
from tests.families import make_checkpoint

WORDS = {3: "three", 4: "four", 5: "five"}


def test_the_reference_is_what_our_own_decoding_gives(tmp_path):
    directory = make_checkpoint(tmp_path, "llama", dtype=torch.float32)
    model, target = load_causal_lm(directory), PackedModel(load_causal_lm(directory), 256)
    prompt = [5, 9, 3, 9, 7]
    for sampling in (*SAMPLINGS, Sampling(1.0, seed=2**63)):
        reference = sampled_answer(model, prompt, [0], sampling, 20)
        ours = Rounds(target, LookupDrafter(), rule="coupled", sampling=sampling)
        assert ours.answer(prompt, 20, frozenset([0])).tokens == reference.answer
        assert len(reference.gaps) == len(reference.answer)
    assert len({sampled_answer(model, prompt, [0], Sampling(1.0, seed=seed), 8).answer for seed in range(4)}) == 4


def test_a_difference_is_a_fault():
    alike = Counter(identical=3, tokens=30, passes=10)
    assert not make_report({SYSTEMS[0]: alike}, 3).faults
    report = make_report({SYSTEMS[0]: alike, SYSTEMS[1]: Counter(identical=2, different=1, tokens=9, passes=9)}, 3)
    assert len(report.faults) == 1
    assert "eagle" in report.faults[0]
    assert report.rows[0][-1] == "3.00"


async def test_passes_of_streams_that_are_cut_are_not_made_up(monkeypatch):
    async def right(*_):
        return (5, 6)

    monkeypatch.setattr(coupled, "_answer_with_breaks", right)
    cut = next(system for system in SYSTEMS if system.breaks)
    asked = SampledReference(SAMPLINGS[0], Reference((1,), (5, 6), (1.0, 1.0)))
    tally = await coupled._judge(None, cut, [asked] * 3)
    assert tally == {"identical": 3}
    assert make_report({cut: tally}, 3).results == {"plain decoding, stream cut, eager, loopback, 8": {"identical": 3}}


def test_provenance_has_every_model_that_systems_draft_with():
    request = Request(0, quick=True)
    loaded = set(find_experiment("coupled").checkpoints(request))
    assert {system.draft for system in SYSTEMS if system.draft} - set(STATELESS_KINDS) < loaded
    assert "target" in loaded


def test_the_catalogue_counts_what_is_compared():
    description = find_experiment("coupled").description
    drafts = {system.draft for system in SYSTEMS if system.draft}
    idle = {system.idle for system in SYSTEMS}
    links = {system.link for system in SYSTEMS if system.link}
    counted = f"{WORDS[len(drafts)]} drafts, {WORDS[len(idle)]} idle policies, {WORDS[len(links)]} links"
    assert counted in description
