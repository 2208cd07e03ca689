"""The generated data is frozen: models are trained and judged on it, so it may change only on purpose.

A change on purpose (a family added, a wording mended) comes with new models and a new digest here.
"""

from __future__ import annotations

import hashlib
from itertools import islice

import pytest

from training.demo.registry import HELD_OUT, families
from training.demo.render import make_instance
from training.demo.talks.categories import CATEGORIES, talks

INSTANCES = 6
DIGEST = "98547c98e2f80f5ea55d7e619e693e67c0ca0664bb49a148d1841b99085cf33c"
TALKS = 500
TALK_DIGESTS = {
    "math": "aea79741fad003025d4187733beae9ee7bcd9aec36e855b4508132ecd6f89a86",
    "reading": "b0d443458bdb37e6e34d6035ae7baf3e41b288a40da3e8ee85cfdc97da38d754",
    "rewriting": "d139615b015b4919ba7c2091000bc7b9c52b470c20ffcd4920478e61ddbf6465",
    "stories": "544e6d21f53ef71488f0d14c355a751702806ba59c562248d6c1b536edbc93e6",
    "chat": "b5a176730a21bb0fb8ebbe8917eba332a6e8fb9793dee143572f27b16c626327",
}


def test_the_generated_instances_are_the_shipped_ones() -> None:
    digest = hashlib.sha256()
    for name, make in families().items():
        for index in range(INSTANCES):
            instance = make_instance(name, make, f"frozen:{index}")
            parts = (name, name in HELD_OUT, instance.prompt, instance.answer, instance.code, instance.tests)
            digest.update(repr(parts).encode())
    assert digest.hexdigest() == DIGEST


def test_every_category_is_frozen() -> None:
    assert set(TALK_DIGESTS) == set(CATEGORIES)


@pytest.mark.parametrize("name", sorted(CATEGORIES))
def test_the_generated_talks_are_the_shipped_ones(name: str) -> None:
    digest = hashlib.sha256()
    for talk in islice(talks(name, "frozen"), TALKS):
        digest.update(repr((talk.family, talk.turns, talk.result, talk.wrong)).encode())
    assert digest.hexdigest() == TALK_DIGESTS[name]
