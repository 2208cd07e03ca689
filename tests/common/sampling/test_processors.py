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
from common.sampling.preceding import NOTHING, Preceding, Text
from common.sampling.processors import Processors
from tests.common.protocol.laws import processed
from tests.families import make_checkpoint

VOCABULARY = 300
TEXT = [7, 7, 200, 3]
PATHS = [[], [5], list(range(0, 300, 7)), [299, 0, 150], [1] * 90, [8, 7]]
ROWS = Preceding(Text(TEXT), PATHS)
BEFORE = [TEXT + path for path in PATHS]
"""Each row's whole sequence: of several lengths."""

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
    assert torch.equal(Processors(sampling)(logits, ROWS), expected)


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
        assert torch.equal(Processors(sampling)(logits, ROWS), expected)


@pytest.mark.parametrize("sampling", WAYS)
def test_the_tests_own_processors_agree(sampling):
    logits = some_logits(seed=3)
    p = Processors(sampling)(logits, ROWS).double().softmax(-1).numpy()
    expected = [processed(row.numpy(), sampling, before) for row, before in zip(logits, BEFORE, strict=True)]
    assert np.allclose(p, expected, atol=1e-6)
    assert ((p > 0) == (np.array(expected) > 0)).all()


def test_logits_stay_as_they_were():
    logits = some_logits()
    before = logits.clone()
    Processors(WAYS[-2])(logits, ROWS)
    assert torch.equal(logits, before)


def test_half_precision_is_processed_in_full():
    logits = some_logits(dtype=torch.bfloat16)
    found = Processors(WAYS[-2])(logits, ROWS)
    assert found.dtype == torch.float32
    assert torch.equal(found, Processors(WAYS[-2])(logits.float(), ROWS))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [(None, {5, 7, 9}), ([9, 3, 5], {0, 2}), ([3, 4], set())],
    ids=["all", "kept", "none of them"],
)
def test_a_long_text_is_penalised_by_each_of_its_tokens_once(monkeypatch, columns, expected):
    processors = Processors(
        Sampling(repetition_penalty=1.3), columns=None if columns is None else torch.tensor(columns)
    )
    penalised = []
    monkeypatch.setattr(processors, "_penalty", lambda ids, scores: penalised.append(ids.tolist()) or scores)
    processors(torch.zeros(1, VOCABULARY if columns is None else len(columns)), Preceding(Text([7, 5, 9] * 1000), [[]]))
    ((row,),) = penalised
    assert set(row) == expected
    assert len(row) == len(expected)


def test_tokens_without_a_column_penalise_nothing():
    processors = Processors(Sampling(repetition_penalty=1.3), columns=torch.tensor([3, 4]))
    logits = torch.tensor([[2.0, -1.0], [2.0, -1.0]])
    assert torch.equal(processors(logits, Preceding(Text([7, 5]), [[], []])), logits)
    assert torch.equal(processors(logits, Preceding(Text([7, 5]), [[9], [8, 9]])), logits)
    assert processors(logits, Preceding(Text([7, 5]), [[9], [4, 9]])).tolist() == [
        [2.0, -1.0],
        [2.0, pytest.approx(-1.3)],
    ]


def test_at_temperature_0_only_the_penalty_is_left():
    logits = some_logits()
    filters = {"top_k": 3, "top_p": 0.2, "min_p": 0.9}
    assert torch.equal(Processors(Sampling(0.0, **filters))(logits, ROWS), logits)
    penalised = Processors(Sampling(0.0, **filters, repetition_penalty=1.5))(logits, ROWS)
    assert torch.equal(penalised, Processors(Sampling(repetition_penalty=1.5))(logits, ROWS))
    assert torch.isfinite(penalised).all()


class Even:
    """Allows the even tokens, and behind an answer of an odd length the odd ones."""

    def allowed(self, answer):
        return (np.arange(VOCABULARY) + len(answer)) % 2 == 0

    def forced(self, answer, most):
        return ()


@pytest.mark.parametrize("start", [0, 1, 4, 6], ids=lambda start: f"answer from {start}")
@pytest.mark.parametrize("columns", [None, [7, 5, 299, 14]], ids=["all columns", "kept columns"])
def test_openais_penalties_count_the_answer_alone_and_bias_is_added(columns, start):
    """OpenAI's formula: logit - count * frequency_penalty - (count > 0) * presence_penalty, then its logit_bias."""
    sampling = Sampling(presence_penalty=0.7, frequency_penalty=0.25, logit_bias=((5, 3.0), (7, -1.5)))
    kept = list(range(VOCABULARY)) if columns is None else columns
    logits = some_logits()[:, : len(kept)]
    found = Processors(sampling, start, columns=None if columns is None else torch.tensor(columns))(logits, ROWS)
    bias = dict(sampling.logit_bias)
    for before, row, processed_row in zip(BEFORE, logits.tolist(), found.tolist(), strict=True):
        answer = before[start:]
        expected = [
            value + bias.get(token, 0.0) - answer.count(token) * 0.25 - (token in answer) * 0.7
            for token, value in zip(kept, row, strict=True)
        ]
        assert processed_row == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("columns", [None, [7, 4, 298, 14]], ids=["all columns", "kept columns"])
@pytest.mark.parametrize("start", [2, 5])
def test_what_a_constraint_forbids_is_gone_before_filters_look(columns, start):
    kept = list(range(VOCABULARY)) if columns is None else columns
    logits = some_logits()[:, : len(kept)]
    sampling = Sampling(0.8, top_k=2)
    found = Processors(sampling, start, Even(), None if columns is None else torch.tensor(columns))(logits, ROWS)
    for before, row, processed_row in zip(BEFORE, logits, found, strict=True):
        even = (np.array(kept) + len(before[start:])) % 2 == 0
        allowed = row.masked_fill(torch.tensor(~even), -torch.inf)
        if even.any():
            expected = allowed.topk(min(2, int(even.sum()))).indices.sort().values
            assert torch.equal(processed_row.isfinite().nonzero().squeeze(-1), expected)
        else:
            assert not processed_row.isfinite().any()


@pytest.mark.parametrize("width", [VOCABULARY - 40, VOCABULARY + 40])
def test_a_draft_model_may_have_fewer_logits_than_its_target_or_padding(width):
    logits = torch.randn(len(BEFORE), width, generator=torch.Generator().manual_seed(1))
    found = Processors(LIKELIEST, 0, Even())(logits, ROWS).isfinite()
    for before, row in zip(BEFORE, found, strict=True):
        allowed = torch.from_numpy(Even().allowed(before))
        assert torch.equal(row[:VOCABULARY], allowed[:width])
        assert not row[VOCABULARY:].any()


@pytest.mark.parametrize(
    ("sampling", "constraint", "expected"),
    [
        (LIKELIEST, None, True),
        (Sampling(presence_penalty=0.1), None, False),
        (Sampling(frequency_penalty=0.1), None, False),
        (Sampling(repetition_penalty=1.1), None, False),
        (Sampling(logit_bias=((3, 1.0),)), None, False),
        (LIKELIEST, Even(), False),
        (Sampling(0.5), None, False),
    ],
)
def test_only_without_processors_is_the_argmax_kept(sampling, constraint, expected):
    assert Processors(sampling, 0, constraint).keep_argmax == expected


def test_only_a_penalty_asks_for_what_came_before():
    assert not Processors(LIKELIEST).needs_tokens
    assert not Processors(WAYS[3]).needs_tokens
    assert Processors(WAYS[-1]).needs_tokens
    logits = some_logits()
    assert torch.equal(Processors(WAYS[3])(logits, NOTHING), Processors(WAYS[3])(logits, ROWS))


def test_each_text_has_penalties_of_its_own():
    """One `Processors` sees a text that grows, and another for each request of a server."""
    processors = Processors(Sampling(frequency_penalty=0.5), 1)
    logits = torch.zeros(1, VOCABULARY)
    for text in (Text([7, 7, 9]), Text([7, 5])):
        for path in ([], [5]):
            (row,) = processors(logits, Preceding(text, [path])).tolist()
            answer = [*text.tokens[1:], *path]
            assert row == [-0.5 * answer.count(token) for token in range(VOCABULARY)]
