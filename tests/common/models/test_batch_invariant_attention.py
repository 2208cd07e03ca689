"""Batch-invariant passes have the bits of plain decoding however they are grouped."""

import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.models.batch_invariance import row_multiple
from common.models.batch_invariant_attention import BatchInvariantAttention
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.models.page_tasks import PAGE
from common.models.segment import Segment
from common.models.slots import SlotPool
from netem.experiments.family_checkpoints import FAMILIES, VOCABULARY, make_family_checkpoint
from tests.common.models.dense_attention import SCORINGS, dense, make_layer, random_plan
from tests.common.models.session import Session

CAPACITY = 1_200
LENGTHS = (PAGE + 30, 30, PAGE + 5)
DTYPES = (torch.bfloat16, torch.float16)


def test_rows_of_a_long_prompt_are_computed_in_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("common.models.page_layout._PARTIALS_AT_ONCE", 1_000)
    plan = random_plan(1)
    layer = make_layer(plan.rows)
    found = BatchInvariantAttention().attend(plan, layer.query, layer.keys, layer.values, SCORINGS["plain"])
    torch.testing.assert_close(found, dense(plan, layer, SCORINGS["plain"]), rtol=0, atol=1e-12)


def test_what_one_session_spoils_reaches_no_other() -> None:
    plan = random_plan(2)
    layer = make_layer(plan.rows)
    spoilt = plan.segments[0]
    layer.values[:, torch.from_numpy(spoilt.context_slots)] = torch.nan
    computed = BatchInvariantAttention().attend(plan, layer.query, layer.keys, layer.values, SCORINGS["plain"])
    rows = torch.arange(plan.rows)
    is_spoilt = (rows >= spoilt.first_row) & (rows < spoilt.first_row + spoilt.new)
    assert computed[is_spoilt].isnan().all()
    assert computed[~is_spoilt].isfinite().all()


class PlainlyDecoded:
    """A model, and the logits of random texts that it read token by token, each alone."""

    def __init__(self, directory: Path, dtype: torch.dtype) -> None:
        model = load_causal_lm(directory, dtype=dtype)
        multiple = row_multiple(model)
        assert multiple is not None
        self.packed = PackedModel(model, CAPACITY, backend=BatchInvariantAttention(), row_multiple=multiple)
        choose = random.Random(0)
        self.texts = [[choose.randrange(VOCABULARY) for _ in range(length)] for length in LENGTHS]
        self.logits = [self._read(text) for text in self.texts]

    def _read(self, text: Sequence[int]) -> torch.Tensor:
        session, rows = Session(SlotPool(CAPACITY)), []
        for token in text:
            rows.append(self.packed.forward([session.append([token])]).logits)
            session.commit(0)
        return torch.cat(rows)


@pytest.fixture(scope="module")
def plainly_decoded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, torch.dtype], PlainlyDecoded]:
    @cache
    def decode(family: str, dtype: torch.dtype) -> PlainlyDecoded:
        directory = tmp_path_factory.mktemp(family)
        return PlainlyDecoded(make_family_checkpoint(directory, FAMILIES[family], layers=2), dtype)

    return decode


@pytest.mark.parametrize("family", ["llama", "qwen2", "mistral", "qwen3-moe"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_every_grouping_has_the_bits_of_plain_decoding(
    plainly_decoded: Callable[[str, torch.dtype], PlainlyDecoded], family: str, dtype: torch.dtype, seed: int
) -> None:
    """Chunks of prompts, trees with wrong branches and several sessions share passes at random."""
    truth, choose = plainly_decoded(family, dtype), random.Random(seed)
    slots = SlotPool(CAPACITY)
    readers = [_Reader(text, logits, slots) for text, logits in zip(truth.texts, truth.logits, strict=True)]
    while unfinished := [each for each in readers if not each.is_done]:
        taking_part = [each for each in unfinished if choose.random() < 0.7] or unfinished
        segments = [each.propose(choose) for each in taking_part]
        logits = truth.packed.forward(segments).logits
        for reader, rows in zip(taking_part, logits.split([len(each.tokens) for each in segments]), strict=True):
            reader.check(rows)
            reader.accept(choose)


class _Reader:
    """Reads a text by chunks and by nodes of trees, of which some are wrong."""

    def __init__(self, text: Sequence[int], logits: torch.Tensor, slots: SlotPool) -> None:
        self._text, self._logits, self._slots = text, logits, slots
        self._session = Session(slots)
        self._read = 0
        self._right: list[int] = []

    @property
    def is_done(self) -> bool:
        return self._read == len(self._text)

    def propose(self, choose: random.Random) -> Segment:
        chain = self._text[self._read : self._read + choose.choice([1, 1, 2, 17, 50])]
        tokens, parents, self._right = list(chain), list(range(-1, len(chain) - 1)), list(range(len(chain)))
        for _ in range(choose.choice([0, 3, 14])):
            following = self._read + len(self._right)
            if choose.random() < 0.5 and following < len(self._text):
                parents.append(self._right[-1])
                self._right.append(len(tokens))
                tokens.append(self._text[following])
            else:
                parents.append(choose.randrange(len(chain) - 1, len(tokens)))
                tokens.append(choose.randrange(VOCABULARY))
        self._chain = len(chain)
        return self._session.propose(tokens, parents)

    def check(self, rows: torch.Tensor) -> None:
        assert torch.equal(rows[self._right], self._logits[self._read : self._read + len(self._right)])

    def accept(self, choose: random.Random) -> None:
        """Commits the chain and some of the right nodes, and drops what hangs below."""
        accepted = choose.randrange(self._chain, len(self._right) + 1)
        self._session.commit(self._right[accepted - 1])
        self._slots.give(self._session.branch_slots)
        self._session.branch_tokens, self._session.branch_slots, self._session.parents = [], [], []
        self._read += accepted
