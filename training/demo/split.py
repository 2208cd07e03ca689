"""Which generated instances may be trained on: a stable hash of the wording, apart from the held-out families.

What may live here: the split rule and seeded streams of instances that obey it. It may not know any layout.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Set

from training.demo.registry import HELD_OUT, Family, held_out_families, training_families
from training.demo.render import Instance, make_instance

HELD_OUT_SHARE = 16


def is_held_out_prompt(prompt: str) -> bool:
    """True for one wording in sixteen, forever the same ones."""
    return hashlib.blake2b(prompt.encode(), digest_size=1).digest()[0] % HELD_OUT_SHARE == 0


def training_instances(seed: str) -> Iterator[Instance]:
    """An endless stream of fresh instances of the training families, without tests, none with a held-out wording."""
    drawn = (make_instance(*draw, tested=False) for draw in draws(training_families(), seed))
    return (instance for instance in drawn if not is_held_out_prompt(instance.prompt))


def held_out_instances(seed: str) -> Iterator[Instance]:
    """Instances of the training families whose wording training never sees."""
    for draw in draws(training_families(), seed):
        # Tests take most of the time, and fifteen of sixteen prompts are not held out.
        if is_held_out_prompt(make_instance(*draw, tested=False).prompt):
            yield make_instance(*draw)


def held_out_family_instances(seed: str, names: Set[str] = HELD_OUT) -> Iterator[Instance]:
    """Instances of those of the families that training never sees."""
    chosen = {name: make for name, make in held_out_families().items() if name in names}
    return (make_instance(*draw) for draw in draws(chosen, seed))


def draws(chosen: dict[str, Family], seed: str) -> Iterator[tuple[str, Family, str]]:
    """Rounds through all chosen families in a fresh order each time: a name, its family and a seed for one instance."""
    rng = random.Random(seed)
    names = list(chosen)
    while True:
        rng.shuffle(names)
        for name in names:
            yield name, chosen[name], f"{seed}:{name}:{rng.getrandbits(48)}"
