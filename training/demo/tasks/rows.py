"""A family in one row, and the parts that rows draw.

What may live here: drawing the slots of templates, and the step from a row to a registered family. It may not know
any single family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from training.demo.instance import InstanceDraw, Sketch, Wording, sketch
from training.demo.parts import Condition, composed, number_condition, number_transform, word_condition
from training.demo.registry import register
from training.demo.tasks.loops import Body
from training.demo.tasks.sources import LoopSource

Slots = dict[str, Any]
Part = Callable[[InstanceDraw], Slots]


def row(
    name: str, source: LoopSource, parts: Sequence[Part], body: Body, wording: Wording, before: Sequence[Part] = ()
) -> None:
    """Register the family `name`. Its parts are drawn after the parameter, in order; those in `before` before it."""

    def make(draw: InstanceDraw) -> Sketch:
        slots: Slots = {"noun": source.noun, "type": source.type}
        for part in before:
            slots |= part(draw)
        parameter = draw.parameter(source.kind)
        slots |= {"name": parameter.name, "each": parameter.each}
        slots["item"] = source.item.format_map(slots)
        for part in parts:
            slots |= part(draw)
        lines = body.lines(source.heads, slots)
        returns = body.returns.format_map(slots)
        return sketch(draw, parameter, source.inputs(draw), wording.filled(slots), returns, lines)

    register(name, make)


def given(**slots: str) -> Part:
    """Slots that are not drawn."""
    return lambda draw: slots


def drawn(slot: str, make: Callable[[InstanceDraw], object]) -> Part:
    return lambda draw: {slot: make(draw)}


def integer(slot: str, low: int, high: int) -> Part:
    return drawn(slot, lambda draw: draw.rng.randint(low, high))


def constant(slot: str, low: int, high: int) -> Part:
    """An integer that tests should come close to."""
    return drawn(slot, lambda draw: draw.constant(low, high))


def limits(lowest: int, highest: int, nearest: int, farthest: int) -> Part:
    """`low` between `lowest` and `highest`, and `high` above it by `nearest` to `farthest`."""

    def draw_limits(draw: InstanceDraw) -> Slots:
        low = draw.constant(lowest, highest)
        return {"low": low, "high": draw.constant(low + nearest, low + farthest)}

    return draw_limits


def choice(slots: str, *options: Sequence[object]) -> Part:
    """One of the options; `slots` names its fields, with spaces between them."""
    return lambda draw: dict(zip(slots.split(), draw.pick(options), strict=True))


def condition(make: Callable[[InstanceDraw], Condition], nouns: str) -> Part:
    """`keep`, and in `kept` the nouns that it describes, such as "even numbers"."""

    def draw_condition(draw: InstanceDraw) -> Slots:
        chosen = make(draw)
        kept = chosen.nouns(nouns) if chosen.attributive else f"{nouns} that {chosen.many}"
        return {"keep": chosen, "kept": kept}

    return draw_condition


KEEP_NUMBER = condition(number_condition, "numbers")
KEEP_SOME_NUMBERS = condition(lambda draw: composed(draw, number_condition), "numbers")
KEEP_WORD = condition(word_condition, "words")
CHANGE_NUMBER = drawn("change", number_transform)
LETTER = drawn("letter", InstanceDraw.letter)
