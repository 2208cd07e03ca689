"""The processors equal transformers' own, each alone and all in its order, for sequences of any length."""

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from common.protocol.sampling import LIKELIEST, Sampling
from common.sampling.processors import Processors
from tests.common.protocol.laws import processed
from tests.families import make_checkpoint

VOCABULARY = 300
BEFORE = [[5], [7, 7, 200, 3], list(range(0, 300, 7)), [299, 0, 150], [1] * 90, [8, 9]]
"""Sequences of several lengths."""

WAYS = [
    Sampling(0.7),
    Sampling(1.0),
    Sampling(1.0, top_k=1),
    Sampling(1.3, top_k=40, top_p=0.9),
    Sampling(0.8, top_p=0.3, min_p=0.05),
    Sampling(1.0, min_p=1.0),
    Sampling(0.6, top_k=20, top_p=0.95, min_p=0.02, repetition_penalty=1.3),
    Sampling(2.0, top_k=400, top_p=0.5, repetition_penalty=0.7),
]


def some_logits(seed=0, dtype=torch.float32):
    return (torch.randn(len(BEFORE), VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 3).to(dtype)


def row_by_row(processors, logits):
    """transformers' result for each sequence alone."""
    rows = [processors(torch.tensor([before]), row[None]) for before, row in zip(BEFORE, logits, strict=True)]
    return torch.cat(rows)


@pytest.mark.parametrize(
    ("sampling", "processor"),
    [
        (Sampling(repetition_penalty=1.3), RepetitionPenaltyLogitsProcessor(1.3)),
        (Sampling(1.0, repetition_penalty=0.6), RepetitionPenaltyLogitsProcessor(0.6)),
        (Sampling(0.7), TemperatureLogitsWarper(0.7)),
        (Sampling(1.0, top_k=5), TopKLogitsWarper(5)),
        (Sampling(1.0, top_k=1000), TopKLogitsWarper(1000)),
        (Sampling(1.0, top_p=0.8), TopPLogitsWarper(0.8)),
        (Sampling(1.0, top_p=1e-9), TopPLogitsWarper(1e-9)),
        (Sampling(1.0, min_p=0.1), MinPLogitsWarper(0.1)),
    ],
)
def test_each_processor_is_transformers_own(sampling, processor):
    logits = some_logits()
    expected = row_by_row(LogitsProcessorList([processor]), logits.clone())
    assert torch.equal(Processors(sampling)(logits, BEFORE), expected)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = make_checkpoint(tmp_path_factory.mktemp("model"), "llama", layers=1, vocab=VOCABULARY)
    return AutoModelForCausalLM.from_pretrained(directory)


@pytest.mark.parametrize("sampling", WAYS)
def test_together_they_are_what_generate_builds(model, sampling):
    asked = GenerationConfig(
        do_sample=True,
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
    )
    generates = model._get_logits_processor(asked, input_ids_seq_length=1, logits_processor=LogitsProcessorList())
    for seed in range(20):
        logits = some_logits(seed)
        expected = row_by_row(generates, logits.clone())
        assert torch.equal(Processors(sampling)(logits, BEFORE), expected)


@pytest.mark.parametrize("sampling", WAYS)
def test_the_tests_own_processors_agree(sampling):
    logits = some_logits(seed=3)
    p = Processors(sampling)(logits, BEFORE).double().softmax(-1).numpy()
    expected = [processed(row.numpy(), sampling, before) for row, before in zip(logits, BEFORE, strict=True)]
    assert np.allclose(p, expected, atol=1e-6)
    assert ((p > 0) == (np.array(expected) > 0)).all()


def test_logits_stay_as_they_were():
    logits = some_logits()
    before = logits.clone()
    Processors(WAYS[-2])(logits, BEFORE)
    assert torch.equal(logits, before)


def test_half_precision_is_processed_in_full():
    logits = some_logits(dtype=torch.bfloat16)
    found = Processors(WAYS[-2])(logits, BEFORE)
    assert found.dtype == torch.float32
    assert torch.equal(found, Processors(WAYS[-2])(logits.float(), BEFORE))


def test_at_temperature_0_only_the_penalty_is_left():
    logits = some_logits()
    filters = {"top_k": 3, "top_p": 0.2, "min_p": 0.9}
    assert torch.equal(Processors(Sampling(0.0, **filters))(logits, BEFORE), logits)
    penalised = Processors(Sampling(0.0, **filters, repetition_penalty=1.5))(logits, BEFORE)
    assert torch.equal(penalised, Processors(Sampling(repetition_penalty=1.5))(logits, BEFORE))
    assert torch.isfinite(penalised).all()


def test_only_a_penalty_asks_for_what_came_before():
    assert not Processors(LIKELIEST).penalise
    assert not Processors(WAYS[3]).penalise
    assert Processors(WAYS[-1]).penalise
    logits = some_logits()
    assert torch.equal(Processors(WAYS[3])(logits, ()), Processors(WAYS[3])(logits, BEFORE))
