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
    "math": "ebeea92721bfcab50b2cd148bad203817952c2e021500a0a1ee2640d10de1d81",
    "reading": "b485e49a676d275b20668839454b4f533002c06e9be148927491a6b5f3bc2ceb",
    "rewriting": "593d79fe9f2ff9f4cae0be1024057f0d83345398ed02c6f0bfd1463a65b18d16",
    "stories": "675a5dab201b01936342f8a6c40e93db2af92354220e6a0267b4921a7f982594",
    "chat": "0c43365afe70baf61b2b5ea249ec7761a6654ad4a4518b7a860eb6a5e3a74d7f",
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
        digest.update(repr((talk.family, talk.turns, talk.result)).encode())
    assert digest.hexdigest() == TALK_DIGESTS[name]
