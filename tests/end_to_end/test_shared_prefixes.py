"""Answers and K/V are the same whether sessions share prefixes or not: the real target, in passes of all sizes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from common.models.batch_invariance import row_multiple
from common.models.batch_invariant_attention import BatchInvariantAttention
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.protocol.client_session import Limits
from common.protocol.messages import Settings
from server.passes.target import Target
from server.sessions.sessions import Sessions
from tests.families import make_checkpoint
from tests.server.clients_of_sessions import SERVING_LIMITS, TERMS, Client, one_pass
from tests.server.fake_target import FakeTarget
from tests.server.proposers import guessing

VOCAB, CAPACITY = 300, 2048
SYSTEM = [(7 * index) % 290 + 3 for index in range(150)]
PROMPTS = [[*SYSTEM[: 150 - 20 * (index % 3)], *range(10 + index, 20 + index)] for index in range(6)]
TOKENS = 12


class Answered(FakeTarget):
    """Answers all prompts with the real target, and keeps the K/V of each session."""

    def __init__(self, packed: PackedModel, share_prefixes: str, pass_tokens: int, at_once: bool):
        super().__init__()
        self._target = Target(packed)
        terms = replace(TERMS, vocab_size=VOCAB, end_tokens=frozenset())
        limits = replace(SERVING_LIMITS, pass_tokens=pass_tokens)
        self.sessions = Sessions(terms, limits, CAPACITY, share_prefixes=share_prefixes)
        clients = [
            Client(self.sessions, str(index), limits=Limits("f", VOCAB, 400, 64)) for index in range(len(PROMPTS))
        ]
        drafts = [guessing(VOCAB, index) for index in range(len(PROMPTS))]
        waiting = list(zip(clients, PROMPTS, strict=True))
        while not all(client.done for client in clients):
            for client, prompt in waiting[: len(waiting) if at_once else 1]:
                client.open(prompt, Settings(max_new_tokens=TOKENS))
            del waiting[: len(waiting) if at_once else 1]
            one_pass(self.sessions, self)
            for client, draft in zip(clients, drafts, strict=True):
                client.hear()
                if self.sessions._registry.entry_of(client) is not None and not client.done:
                    client.draft(draft)
        self.tokens = [tuple(client.session.answer) for client in clients]
        entries = [self.sessions._registry.entry_of(client) for client in clients]
        held = [torch.from_numpy(entry.sequence.slots.copy()) for entry in entries if entry is not None]
        layers = range(len(packed.pool.keys_KSD))
        self.key_values = [
            [tensor[: len(SYSTEM)] for layer in layers for tensor in packed.pool.read(layer, slots)] for slots in held
        ]

    def verify(self, scheduled: Sequence) -> list:
        return self._target.verify(scheduled)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("shared") / "target", "llama", vocab=VOCAB)


@pytest.mark.parametrize("pass_tokens", [40, 512])
@pytest.mark.parametrize("at_once", [True, False])
def test_answers_are_generates_own(checkpoint: Path, pass_tokens: int, at_once: bool) -> None:
    model = load_causal_lm(checkpoint, dtype=torch.float64)
    answered = Answered(PackedModel(model, CAPACITY), "client", pass_tokens, at_once)
    plain = load_causal_lm(checkpoint, dtype=torch.float64)
    for prompt, tokens in zip(PROMPTS, answered.tokens, strict=True):
        generated = plain.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=TOKENS,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        assert tokens == tuple(generated[0, len(prompt) :].tolist())
    assert answered.sessions.counters.prefix_cache_hits > 400


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_batch_invariant_passes_give_shared_prefixes_the_bits_of_own_ones(checkpoint: Path, dtype: torch.dtype) -> None:
    def answered(share_prefixes: str, pass_tokens: int, at_once: bool) -> Answered:
        model = load_causal_lm(checkpoint, dtype=dtype)
        multiple = row_multiple(model)
        if multiple is None:
            pytest.skip("on this processor numbers depend on how many tokens share a pass")
        packed = PackedModel(model, CAPACITY, backend=BatchInvariantAttention(), row_multiple=multiple)
        return Answered(packed, share_prefixes, pass_tokens, at_once)

    alone, shared = answered("never", 512, at_once=False), answered("client", 40, at_once=True)
    assert (alone.sessions.counters.prefix_cache_hits, shared.sessions.counters.prefix_cache_hits > 400) == (0, True)
    assert shared.tokens == alone.tokens
    for ours, theirs in zip(shared.key_values, alone.key_values, strict=True):
        assert all(torch.equal(mine, other) for mine, other in zip(ours, theirs, strict=True))
