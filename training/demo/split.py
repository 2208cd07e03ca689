"""Which generated instances may be trained on: a stable hash of the wording, apart from the held-out families.

What may live here: the split rule and seeded streams of instances that obey it. It may not know any layout.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

from training.demo.registry import Family, held_out_families, training_families
from training.demo.render import Instance, make_instance

HELD_OUT_SHARE = 16


def is_held_out_prompt(prompt: str) -> bool:
    """True for one wording in sixteen, forever the same ones."""
    return hashlib.blake2b(prompt.encode(), digest_size=1).digest()[0] % HELD_OUT_SHARE == 0


def training_instances(seed: str) -> Iterator[Instance]:
    """An endless stream of fresh instances of the training families, without tests, none with a held-out wording."""
    drawn = stream(training_families(), seed, tested=False)
    return (instance for instance in drawn if not is_held_out_prompt(instance.prompt))


def held_out_instances(seed: str) -> Iterator[Instance]:
    """Instances of the training families whose wording training never sees."""
    return (instance for instance in stream(training_families(), seed) if is_held_out_prompt(instance.prompt))


def held_out_family_instances(seed: str) -> Iterator[Instance]:
    """Instances of the families that training never sees."""
    return stream(held_out_families(), seed)


def stream(chosen: dict[str, Family], seed: str, tested: bool = True) -> Iterator[Instance]:
    """Rounds through all chosen families in a fresh order each time."""
    rng = random.Random(seed)
    names = list(chosen)
    while True:
        rng.shuffle(names)
        for name in names:
            yield make_instance(name, chosen[name], f"{seed}:{name}:{rng.getrandbits(48)}", tested)
