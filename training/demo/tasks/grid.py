"""The composed families: every source with every aggregate that fits, with conditions and changes drawn.

What may live here: putting the words and the code of the parts together. It may not know any single part.
"""

from __future__ import annotations

from typing import Any

from training.demo.instance import InstanceDraw, Sketch, Wording, sketch
from training.demo.parts import Condition, Transform, other_character_condition, vowel_condition
from training.demo.registry import register
from training.demo.tasks.aggregates import AGGREGATES, TAKE, Aggregate
from training.demo.tasks.grid_sources import (
    BY_VALUE,
    CHARACTER,
    ELEMENTS,
    NATURAL,
    NUMBER,
    WORD,
    Elements,
    GridKind,
    some,
)

FITTING = {"number": (NUMBER, NATURAL), "word": (WORD, BY_VALUE), "character": (CHARACTER,)}

# Pairs with a name of their own; all others are called by their aggregate and their source.
NAMES = {
    ("largest", "digits"): "largest_digit",
    ("smallest", "digits"): "smallest_digit",
    ("smallest", "numbers"): "smallest_number",
    ("largest", "numbers"): "largest_number",
    ("any", "words"): "any_word",
    ("index_of", "words"): "index_of_word",
    ("longest", "words"): "longest_word",
    ("shortest", "words"): "shortest_word",
    ("join_changed", "words"): "join_changed_words",
    ("running_total", "numbers"): "running_total",
    ("running_changed_total", "numbers"): "running_changed_total",
    ("running_smallest", "numbers"): "running_smallest",
    ("running_largest", "numbers"): "running_largest",
    ("neighbour_sums", "numbers"): "neighbour_sums",
    ("neighbour_products", "numbers"): "neighbour_products",
    ("neighbour_differences", "numbers"): "neighbour_differences",
    ("sum", "multiples"): "sum_of_multiples",
    ("map", "parts"): "map_text_words",
    ("all", "values"): "all_entries",
    ("count", "cells"): "count_matrix_cells",
    ("split", "keys_by_value"): "group_keys",
}


def fits(aggregate: Aggregate, source: Elements) -> bool:
    """Whether the pair makes sense."""
    kinds = [kind for name in aggregate.fits for kind in FITTING[name]]
    if source.kind not in kinds or source.slug in aggregate.exclude:
        return False
    if source.slug == "entries":
        return aggregate.slug in ("count", "filter", "remove")
    if "{counted}" in aggregate.first and not source.counted:
        return False
    return bool(modes_of(aggregate, source)) and (not aggregate.only or source.slug in aggregate.only)


def family_name(aggregate: Aggregate, source: Elements) -> str:
    return NAMES.get((aggregate.slug, source.slug), f"{aggregate.slug}_{source.slug}")


def modes_of(aggregate: Aggregate, source: Elements) -> tuple[str, ...]:
    """Keys that are picked by their value always have a condition."""
    if not source.whose:
        return aggregate.modes
    return tuple(mode for mode in aggregate.modes if mode in ("kept", "both"))


def compose(name: str, aggregate: Aggregate, source: Elements, kind: GridKind) -> None:
    """Register one family."""
    modes = modes_of(aggregate, source)

    def make(draw: InstanceDraw) -> Sketch:
        mode = draw.pick(modes)
        keep = kind.condition(draw) if mode in ("kept", "both") else None
        change = kind.change(draw) if mode in ("changed", "both") else None
        slots: dict[str, Any] = source.constants(draw)
        for part in aggregate.parts:
            slots |= part(draw)
        parameter = draw.parameter(source.parameter)
        slots |= {"name": parameter.name, "each": parameter.each, "type": kind.type}
        slots |= words(draw, source, aggregate, keep, change, slots)
        slots |= code(source, keep, change, slots)
        slots["packed"] = source.packed.said.format_map(slots)
        slots["packed_plan"] = source.packed.plan
        slots["packed_code"] = source.packed.code
        slots["packed_type"] = source.packed.type.format_map(slots)
        lines = (first_line(aggregate, source, mode), *aggregate.code)
        body = tuple(line.format_map(slots) for line in lines if line)
        wording = worded(draw, aggregate, source, keep, slots)
        return sketch(draw, parameter, source.inputs(draw), wording, aggregate.returns.format_map(slots), body)

    register(name, make)


def words(
    draw: InstanceDraw,
    source: Elements,
    aggregate: Aggregate,
    keep: Condition | None,
    change: Transform | None,
    slots: dict[str, Any],
) -> dict[str, str]:
    """The slots of wordings."""
    one, nouns = source.one.format_map(slots), source.many.format_map(slots)
    many, kept, single, relative = f"{nouns} {source.place}", nouns, f"{one} {source.place}", ""
    if keep is not None:
        relative = f"{source.whose} {keep.predicate}" if source.whose else f"that {keep.many}"
        many, kept = f"{many} {relative}", f"{nouns} {relative}"
        single += f" {source.whose or 'that'} {keep.predicate}"
        if keep.attributive and not source.whose and draw.rng.random() < 0.6:
            kept = keep.nouns(nouns)
            if not keep.after or source.place.startswith("in "):
                many = f"{kept} {source.place}"
    taken = f"{nouns} {source.the_place} {relative}".rstrip()
    best = single
    if change is not None:
        many, taken = f"{many}, each {change.participle}", f"{taken}, each {change.participle}"
        best = f"of the {many}"
    surely = source.never_empty and keep is None
    return {
        "many": many,
        "many_": f"{many}, " if change is not None else f"{many} ",
        "one": single,
        "best": best,
        "kept": kept,
        "noun": one,
        "nouns": nouns,
        "place": source.place,
        "the_place": source.the_place,
        "from_place": f"from {source.place.partition(' ')[2]}",
        "relative": relative,
        "taken": taken,
        "is": keep.predicate if keep is not None else "",
        "are": keep.many if keep is not None else "",
        "none": "" if surely else aggregate.none,
    }


def code(source: Elements, keep: Condition | None, change: Transform | None, slots: dict[str, Any]) -> dict[str, str]:
    """The slots of code."""
    item, loop = source.item.format_map(slots), source.loop.format_map(slots)
    test = format(keep, source.tested or item) if keep is not None else ""
    target = loop.partition("for ")[2].partition(" in ")[0]
    return {
        "item": item,
        "loop": loop,
        "value": format(change, item) if change is not None else item,
        "test": test,
        "when": f" if {test}" if test else "",
        "whole": source.whole.format_map(slots),
        "counted": f"for index, {target} in enumerate({loop.partition(' in ')[2]})",
    }


def first_line(aggregate: Aggregate, source: Elements, mode: str) -> str:
    if aggregate.first == TAKE and mode == "plain" and source.whole:
        return "chosen = {whole}"
    return aggregate.first


def worded(
    draw: InstanceDraw, aggregate: Aggregate, source: Elements, keep: Condition | None, slots: dict[str, Any]
) -> Wording:
    verb, rest = draw.pick(((aggregate.verb, aggregate.rest), *aggregate.says))
    plan = aggregate.plan if aggregate.plan[0].isupper() else f"First take the {{taken}}; then {aggregate.plan}."
    stem, noun = aggregate.stem or aggregate.slug, source.slug
    stems = [f"{stem}_{noun}", f"{stem}_of_{noun}", f"{noun}_{stem}"]
    if keep is not None and keep.attributive:
        stems[1:1] = [f"{stem}_{keep.slug}", f"{stem}_{keep.slug}_{noun}"]
    return Wording(tuple(stems), verb, rest, aggregate.result, plan).filled(slots)


def register_all() -> None:
    for source in ELEMENTS:
        for aggregate in AGGREGATES:
            if not fits(aggregate, source):
                continue
            name = family_name(aggregate, source)
            kind = source.kind
            if name == "remove_characters":
                compose("remove_vowels", aggregate, source, GridKind(kind.type, vowel_condition, kind.change))
                kind = GridKind(kind.type, some(other_character_condition), kind.change)
            compose(name, aggregate, source, kind)


register_all()
