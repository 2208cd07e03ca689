"""Packed passes of many families answer as each family does by itself."""

import copy
from functools import cache
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from common.models.agreement import check_agreement
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.models.slots import SlotPool
from netem.experiments.family_checkpoints import FAMILIES, WINDOW, make_family_checkpoint
from tests.common.models.session import Session, check
from tests.other_families import SERVED

ROUNDING = 1e-4
"""Families that compute a softmax of float64 scores in float32 are no more exact than this."""

ALL = {**FAMILIES, **SERVED}

every_family = pytest.mark.parametrize("family", ALL)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return cache(lambda family: make_family_checkpoint(tmp_path_factory.mktemp(family), ALL[family]))


@pytest.fixture(scope="module")
def own(directory):
    """The family's model in float64 as transformers runs it."""
    return cache(lambda family: load_causal_lm(directory(family), dtype="float64"))


@pytest.fixture(scope="module")
def packed(own):
    """A copy of it, run in passes that were checked."""

    @cache
    def build(family: str) -> PackedModel:
        model = copy.deepcopy(own(family))
        check_agreement(model)
        return PackedModel(model, 200)

    return build


@every_family
def test_sixty_greedy_tokens_are_those_of_generate(family: str, own, packed) -> None:
    reference: PreTrainedModel = own(family)
    prompt = list(range(20, 32))
    ids = torch.tensor([prompt])
    expected = reference.generate(ids, attention_mask=ids * 0 + 1, max_new_tokens=60, do_sample=False)[0].tolist()
    session, text, fresh = Session(SlotPool(200)), list(prompt), prompt
    ends = reference.generation_config.eos_token_id or []
    for _ in range(60):
        if text[-1] in ends:
            break
        fresh = [int(packed(family).forward([session.append(fresh)]).logits[-1].argmax())]
        session.commit(len(session.parents) - 1)
        text += fresh
    assert text == expected


@every_family
def test_a_streaming_tree_equals_its_paths(family: str, own, packed) -> None:
    """Longer than a window; commits leave slots out of order, so that a window that counts slots would differ."""
    model, reference, slots = packed(family), own(family), SlotPool(200)
    near, far = Session(slots), Session(slots)
    first = [near.propose([5, 6, 7, 8, 9, 10], [-1, 0, 1, 2, 2, 3]), far.append(range(40, 40 + WINDOW + 9))]
    check(model, reference, [near, far], first, ROUNDING)
    far.commit(len(far.parents) - 1)
    second = [far.propose([11, 12, 13, 14], [-1, -1, 1, 2]), near.propose([21, 22, 23], [5, 3, 6])]
    check(model, reference, [far, near], second, ROUNDING)
    near.commit(3)
    far.commit(1)
    third = [near.propose([31, 32, 33], [0, -1, 3]), far.propose(range(60, 60 + WINDOW), range(1, WINDOW + 1))]
    check(model, reference, [near, far], third, ROUNDING)


@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.in_shards])
def test_some_lie_in_shards(family: str, directory) -> None:
    where: Path = directory(family)
    assert len(list(where.glob("*.safetensors"))) > 1
