"""Families over a dictionary from names to integers. Knows parts and draws, no layout."""

from __future__ import annotations

from training.demo.instance import Draw, Parameter, Sketch
from training.demo.parts import number_condition, number_transform
from training.demo.registry import family


def sketch(
    draw: Draw,
    mapping: Parameter,
    stems: tuple[str, ...],
    returns: str,
    verb: str,
    rest: str,
    result: str,
    body: tuple[str, ...],
    how: str,
) -> Sketch:
    """A sketch with one dictionary, with the empty one among its tests."""
    return Sketch(
        draw.name(*stems),
        (mapping,),
        returns,
        verb,
        rest,
        result,
        body,
        how,
        (draw.pick(({"ann": 3, "bob": 8}, {"tea": 4, "milk": 12}, {"red": 5, "blue": 10})),),
        draw.cases(
            lambda: (draw.int_dict(),), extra=(({},), *(({"key": number},) for number in draw.telling_numbers()))
        ),
    )


@family
def filter_entries(draw: Draw) -> Sketch:
    mapping, keep = draw.parameter("int_dict"), number_condition(draw)
    return sketch(
        draw,
        mapping,
        (f"filter_{keep.slug}_entries", f"keep_{keep.slug}_entries", f"{keep.slug}_entries"),
        "dict[str, int]",
        "return",
        f"the entries of a dictionary whose value {keep.predicate}",
        f"The entries whose value {keep.predicate}.",
        (
            "result = {}",
            f"for key, value in {mapping.name}.items():",
            f"    if {keep.code('value')}:",
            "        result[key] = value",
            "return result",
        ),
        f"It keeps each entry whose value {keep.predicate}.",
    )


@family
def keys_of_entries(draw: Draw) -> Sketch:
    mapping, keep = draw.parameter("int_dict"), number_condition(draw)
    return sketch(
        draw,
        mapping,
        (f"{keep.slug}_keys", f"keys_{keep.slug}"),
        "list[str]",
        "list",
        f"the keys of a dictionary whose value {keep.predicate}",
        f"The keys whose value {keep.predicate}.",
        (
            "result = []",
            f"for key, value in {mapping.name}.items():",
            f"    if {keep.code('value')}:",
            "        result.append(key)",
            "return result",
        ),
        f"It keeps the key of each entry whose value {keep.predicate}.",
    )


@family
def sum_entries(draw: Draw) -> Sketch:
    mapping, keep = draw.parameter("int_dict"), number_condition(draw)
    return sketch(
        draw,
        mapping,
        (f"sum_{keep.slug}_values", f"total_{keep.slug}_values"),
        "int",
        "add up",
        f"the values of a dictionary where the value {keep.predicate}",
        "The sum of those values.",
        (
            "total = 0",
            f"for key, value in {mapping.name}.items():",
            f"    if {keep.code('value')}:",
            "        total += value",
            "return total",
        ),
        f"It adds each value that {keep.predicate} to the total.",
    )


@family
def count_entries(draw: Draw) -> Sketch:
    mapping, keep = draw.parameter("int_dict"), number_condition(draw)
    return sketch(
        draw,
        mapping,
        (f"count_{keep.slug}_entries", f"number_of_{keep.slug}_values"),
        "int",
        "count",
        f"the entries of a dictionary whose value {keep.predicate}",
        f"The number of entries whose value {keep.predicate}.",
        (
            "count = 0",
            f"for key, value in {mapping.name}.items():",
            f"    if {keep.code('value')}:",
            "        count += 1",
            "return count",
        ),
        f"It counts each entry whose value {keep.predicate}.",
    )


@family
def map_entries(draw: Draw) -> Sketch:
    mapping, change = draw.parameter("int_dict"), number_transform(draw)
    return sketch(
        draw,
        mapping,
        (f"{change.slug}_values", f"{change.slug}_entries"),
        "dict[str, int]",
        "return",
        f"a dictionary with each value {change.participle}",
        f"A dictionary with each value {change.participle}.",
        (
            "result = {}",
            f"for key, value in {mapping.name}.items():",
            f"    result[key] = {change.code('value')}",
            "return result",
        ),
        f"It builds a new dictionary with each value {change.participle}.",
    )


@family
def filter_map_entries(draw: Draw) -> Sketch:
    mapping, keep, change = draw.parameter("int_dict"), number_condition(draw), number_transform(draw)
    return sketch(
        draw,
        mapping,
        (f"{change.slug}_{keep.slug}_values", f"{change.slug}_{keep.slug}_entries"),
        "dict[str, int]",
        "return",
        f"the entries of a dictionary whose value {keep.predicate}, with each value {change.participle}",
        f"The entries whose value {keep.predicate}, each value {change.participle}.",
        (
            "result = {}",
            f"for key, value in {mapping.name}.items():",
            f"    if {keep.code('value')}:",
            f"        result[key] = {change.code('value')}",
            "return result",
        ),
        f"It keeps each entry whose value {keep.predicate} and stores the value {change.participle}.",
    )


@family
def any_entry(draw: Draw) -> Sketch:
    mapping, seek = draw.parameter("int_dict"), number_condition(draw)
    return sketch(
        draw,
        mapping,
        (f"has_{seek.slug}_value", f"any_{seek.slug}_value"),
        "bool",
        "check",
        f"whether any value in a dictionary {seek.predicate}",
        f"True if any value {seek.predicate}, otherwise False.",
        (
            f"for value in {mapping.name}.values():",
            f"    if {seek.code('value')}:",
            "        return True",
            "return False",
        ),
        f"It stops at the first value that {seek.predicate}.",
    )


@family
def all_entries(draw: Draw) -> Sketch:
    mapping, seek = draw.parameter("int_dict"), number_condition(draw)
    return sketch(
        draw,
        mapping,
        (f"all_{seek.slug}_values", f"only_{seek.slug}_values"),
        "bool",
        "check",
        f"whether every value in a dictionary {seek.predicate}",
        f"True if every value {seek.predicate}, otherwise False.",
        (
            f"for value in {mapping.name}.values():",
            f"    if not ({seek.code('value')}):",
            "        return False",
            "return True",
        ),
        "It stops at the first value that fails the check.",
    )


def extreme_key(draw: Draw, adjective: str, sign: str) -> Sketch:
    mapping = draw.parameter("int_dict")
    return sketch(
        draw,
        mapping,
        (f"key_of_{adjective}", f"{adjective}_key"),
        "str | None",
        "find",
        f"the key with the {adjective} value in a dictionary, or None if it is empty",
        f"The key with the {adjective} value, or None.",
        (
            "best = None",
            f"for key, value in {mapping.name}.items():",
            f"    if best is None or value {sign} {mapping.name}[best]:",
            "        best = key",
            "return best",
        ),
        f"It remembers the key with the {adjective} value so far.",
    )


@family
def key_of_largest(draw: Draw) -> Sketch:
    return extreme_key(draw, "largest", ">")


@family
def key_of_smallest(draw: Draw) -> Sketch:
    return extreme_key(draw, "smallest", "<")


@family
def invert_mapping(draw: Draw) -> Sketch:
    mapping, keep = draw.parameter("int_dict"), number_condition(draw)
    return sketch(
        draw,
        mapping,
        (f"invert_{keep.slug}", f"flip_{keep.slug}"),
        "dict[int, str]",
        "swap",
        f"the keys and values of a dictionary where the value {keep.predicate}",
        "A dictionary from the values to the keys.",
        (
            "result = {}",
            f"for key, value in {mapping.name}.items():",
            f"    if {keep.code('value')}:",
            "        result[value] = key",
            "return result",
        ),
        f"It swaps key and value of each entry whose value {keep.predicate}.",
    )


@family
def group_keys(draw: Draw) -> Sketch:
    mapping, seek = draw.parameter("int_dict"), number_condition(draw)
    return sketch(
        draw,
        mapping,
        (f"split_keys_{seek.slug}", f"partition_keys_{seek.slug}"),
        "tuple[list[str], list[str]]",
        "split",
        f"the keys of a dictionary into those whose value {seek.predicate} and the rest",
        "A tuple with the two lists of keys.",
        (
            "chosen = []",
            "rest = []",
            f"for key, value in {mapping.name}.items():",
            f"    if {seek.code('value')}:",
            "        chosen.append(key)",
            "    else:",
            "        rest.append(key)",
            "return chosen, rest",
        ),
        f"It puts each key whose value {seek.predicate} in the first list.",
    )
