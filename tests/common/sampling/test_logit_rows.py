"""Each rule over real logits, compared with references that process every path by itself with transformers."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from common.protocol import noise as noise_module
from common.protocol.messages import Draw, GrownNode, Settings
from common.protocol.noise import GUMBEL, random_bits
from common.protocol.rules import RULES
from common.protocol.rules.verify_input import make_verify_input
from common.protocol.sampling import Sampling
from common.protocol.tree import TokenTree
from common.sampling import logit_rows
from common.sampling.logit_rows import LogitRows, logprobs_of
from tests.pretended_gpu import MPS, pretended_gpu

EPSILON = 2.0**-52
VOCABULARY = 12
PROMPT = [3, 1, 4]
SEEDS = st.integers(0, 2**31)
SAMPLED = st.builds(
    Sampling,
    temperature=st.sampled_from([0.5, 1.0, 1.7]),
    top_k=st.sampled_from([0, 2, 5]),
    top_p=st.sampled_from([1.0, 0.7]),
    repetition_penalty=st.sampled_from([1.0, 1.8]),
    seed=st.integers(0, 2**64 - 1),
)


class Case:
    """A random tree whose nodes mostly follow the target, and the target's logits behind every path."""

    def __init__(self, seed: int, rule: str, sampling: Sampling, nodes: int = 10):
        rng = random.Random(seed)
        self.sampling = sampling
        self._salt = seed
        tree = TokenTree(PROMPT)
        tree.grouped = RULES[rule].grouped
        paths: dict[int, tuple[int, ...]] = {0: ()}
        childless = [0]
        while tree.last_id < nodes:
            parent = childless.pop(rng.randrange(len(childless)))
            width = rng.randint(1, 3)
            likely = self.logits(paths[parent]).argsort(descending=True)[:4].tolist()
            draws = [None, *(Draw(tuple(likely), weights) for weights in ((9, 5, 2, 1), (3, 5, 4, 4)) if tree.grouped)]
            group = rng.sample(likely, width)
            first = tree.last_id + 1
            grown = [GrownNode(first + i, parent, token, -1.0, rng.choice(draws)) for i, token in enumerate(group)]
            tree.grow(len(PROMPT), grown)
            childless += [node.id for node in grown]
            paths |= {node.id: (*paths[parent], node.token) for node in grown}
        asked = Settings(nodes, rule, sampling=sampling)
        self.verify_input = make_verify_input(tree, range(1, 1 + len(tree)), asked)

    def logits(self, path) -> torch.Tensor:
        draws = np.random.default_rng([self._salt, *path])
        return torch.tensor(draws.normal(scale=2.0, size=VOCABULARY), dtype=torch.float32)

    def decide(self) -> list[int]:
        rows = torch.stack(
            [self.logits(tuple(self.verify_input.path(row))) for row in range(len(self.verify_input.tokens))]
        )
        return RULES[self.verify_input.rule].walk(
            self.verify_input, LogitRows(self.verify_input, rows, rows.argmax(-1).tolist())
        )

    @property
    def paths(self) -> set[tuple[int, ...]]:
        return {tuple(self.verify_input.path(row)) for row in range(1, len(self.verify_input.tokens))}

    def scores(self, path) -> torch.Tensor:
        """Processed by transformers, with the penalty for every token of the prompt and the path."""
        sampling, each = self.sampling, LogitsProcessorList()
        if sampling.repetition_penalty != 1.0:
            each.append(RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty))
        each.append(TemperatureLogitsWarper(sampling.temperature))
        if sampling.top_k:
            each.append(TopKLogitsWarper(sampling.top_k))
        if sampling.top_p < 1:
            each.append(TopPLogitsWarper(sampling.top_p))
        return each(torch.tensor([[*PROMPT, *path]]), self.logits(path)[None])[0].double()

    def sample(self, path) -> int:
        """argmax(log p + noise) over the whole vocabulary, the noise made here from bits."""
        bits = [random_bits(self.sampling.seed, GUMBEL, len(PROMPT) + len(path), token) for token in range(VOCABULARY)]
        noise = -np.log(-np.log((np.array(bits) + 0.5) / 2**52))
        return int((self.scores(path).log_softmax(-1).numpy() + noise).argmax())

    def decoded(self, paths, choice) -> list[int]:
        """The target's own tokens as long as they were drafted, and one more."""
        tokens: list[int] = []
        while tuple(tokens) in {(), *paths}:
            tokens.append(choice(tuple(tokens)))
        return tokens


@settings(max_examples=200, deadline=None)
@given(seed=SEEDS, sampling=SAMPLED)
def test_coupled_is_the_targets_own_sample_at_every_step(seed, sampling):
    case = Case(seed, "coupled", sampling)
    assert case.decide() == case.decoded(case.paths, case.sample)


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS, penalty=st.sampled_from([1.0, 3.0]), rule=st.sampled_from(list(RULES)))
def test_at_temperature_0_every_rule_takes_the_likeliest_token(seed, penalty, rule):
    case = Case(seed, rule, Sampling(0.0, top_k=4, repetition_penalty=penalty, seed=seed))

    def likeliest(path):
        logits = case.logits(path)[None]
        if penalty != 1.0:
            logits = RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor([[*PROMPT, *path]]), logits)
        return int(logits.argmax())

    assert case.decide() == case.decoded(case.paths, likeliest)


@settings(max_examples=200, deadline=None)
@given(seed=SEEDS, sampling=SAMPLED)
def test_rules_that_judge_see_the_processed_distribution_behind_the_path(seed, sampling):
    case = Case(seed, "speculative", sampling)
    verify_input = case.verify_input
    rows = torch.stack([case.logits(tuple(verify_input.path(row))) for row in range(len(verify_input.tokens))])
    target = LogitRows(verify_input, rows, rows.argmax(-1).tolist())
    for row in range(len(verify_input.tokens)):
        expected = case.scores(tuple(verify_input.path(row))).softmax(-1)
        assert np.allclose(target.probabilities(row), expected, atol=1e-12)


def judged_slowly(case: Case) -> list[int]:
    """SpecInfer's recursive rejection, written out for every token of the vocabulary."""
    verify_input, tokens, row = case.verify_input, [], 0
    children = verify_input.children()
    while True:
        position, used = len(PROMPT) + len(tokens), 0

        def uniform() -> float:
            nonlocal used
            used += 1
            return (random_bits(case.sampling.seed, 1, position, used - 1) + 0.5) / 2**52  # noqa: B023

        p = case.scores(tuple(tokens)).softmax(-1).numpy()
        untried = np.ones(VOCABULARY)
        for child in children[row]:
            token = verify_input.tokens[child]
            q = np.eye(VOCABULARY)[token]
            if draw := verify_input.draws.get(child):
                q = np.zeros(VOCABULARY)
                q[list(draw.tokens)] = draw.weights
                q *= untried / (q @ untried)
            if uniform() < min(1, p[token] / q[token]):
                break
            untried[token] = 0
            p = np.maximum(p - q, 0) * untried
            p /= p.sum()
        else:
            threshold = uniform()
            return [*tokens, int((np.cumsum(p) / p.sum() > threshold).argmax())]
        tokens.append(token)
        row = child


@settings(max_examples=300, deadline=None)
@given(seed=SEEDS, sampling=SAMPLED)
def test_speculative_is_recursive_rejection_with_the_positions_numbers(seed, sampling):
    case = Case(seed, "speculative", sampling)
    assert case.decide() == judged_slowly(case)


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS, sampling=SAMPLED)
def test_typical_commits_what_is_plausible_and_ends_with_the_targets_sample(seed, sampling):
    case = Case(seed, "typical", sampling)
    tokens = case.decide()
    for depth, token in enumerate(tokens):
        path = tuple(tokens[:depth])
        p = case.scores(path).softmax(-1).numpy()
        entropy = -sum(share * np.log(share) for share in p if share > 0)
        assert p[token] > min(0.09, 0.3 * np.exp(-entropy)) or token == case.sample(path)
    assert tokens[-1] == case.sample(tuple(tokens[:-1]))
    assert tuple(tokens[:-1]) in {(), *case.paths}
    assert tuple(tokens) not in case.paths


@pytest.mark.parametrize("rule", ["coupled", "speculative", "typical"])
def test_only_rows_on_the_way_are_processed(rule, monkeypatch):
    case = Case(1, rule, Sampling(1.0, seed=5), nodes=60)
    processed = []
    process = LogitRows._scores
    monkeypatch.setattr(LogitRows, "_scores", lambda self, row: processed.append(row) or process(self, row))
    tokens = case.decide()
    visited = {tuple(case.verify_input.path(row)) for row in processed}
    assert len(visited) <= 12 < len(case.paths)
    if rule != "typical":
        assert visited == {tuple(tokens[:depth]) for depth in range(len(tokens))}


@pytest.mark.parametrize("seed", [0, 1, 2**33 + 5, 2**64 - 1])
def test_gumbel_noise_is_numpys_within_two_units_in_the_last_place(seed):
    positions, tokens = torch.arange(40)[:, None] * 1_000, torch.arange(4_000)[None].repeat(40, 1)
    expected = noise_module.gumbel(seed, positions.numpy(), tokens.numpy())
    found = logit_rows.gumbel(seed, positions, tokens)
    assert found.dtype == torch.float64
    assert found.shape == tokens.shape
    assert (np.abs(found.numpy() - expected) <= 2 * EPSILON * np.maximum(1, np.abs(expected))).all()


@pytest.mark.parametrize("bits", [0, 1, 2**51, 2**52 - 1])
def test_extreme_bits_give_numpys_finite_noise(monkeypatch, bits):
    for module in (logit_rows, noise_module):
        monkeypatch.setattr(module, "random_bits", lambda seed, purpose, position, index: index * 0 + bits)
    expected = noise_module.gumbel(0, 0, [1])[0]
    assert abs(float(logit_rows.gumbel(0, 0, torch.tensor([1]))) - expected) <= 2 * EPSILON * max(1, abs(expected))


def test_a_position_may_be_a_plain_number():
    tokens = torch.tensor([3, 4, 99])
    assert torch.equal(logit_rows.gumbel(7, 12, tokens), logit_rows.gumbel(7, torch.tensor([12]), tokens))


def test_log_probabilities_of_a_device_without_float64_are_those_of_the_cpu(monkeypatch):
    logits = torch.randn(3, VOCABULARY, generator=torch.Generator().manual_seed(1))
    with pretended_gpu(monkeypatch, MPS):
        assert logprobs_of(logits.to(MPS), [4, 0, 7], 3) == logprobs_of(logits, [4, 0, 7], 3)
