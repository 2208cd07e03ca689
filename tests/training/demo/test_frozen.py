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

INSTANCES = 20
DIGEST = "f4de9b0ed3a054f861b0b02abf44f96e82f83302fe421540cbabf992a5d5291b"
TALKS = 500
TALK_DIGESTS = {
    "math": "aea79741fad003025d4187733beae9ee7bcd9aec36e855b4508132ecd6f89a86",
    "reading": "ea4b848fa261cec12923115b3d40cb066990d87e219682cf4a11a7d7ee25c13a",
    "rewriting": "d139615b015b4919ba7c2091000bc7b9c52b470c20ffcd4920478e61ddbf6465",
    "stories": "7b76f4f4d8a517b59d1c6d90124c208dfed3172874ff7a9fc7faa3e0eb59c955",
    "chat": "cf3ec48db9faf1fcb0b62af625e8af81ce398a0823d184c9e28b654a559d3f38",
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
