"""Families over a list of integers: select, count, sum, map, search. Knows parts and draws, no layout."""

from __future__ import annotations

from training.demo.instance import Draw, Parameter, Sketch
from training.demo.parts import Condition, number_condition, number_transform
from training.demo.registry import family


def sketch(
    draw: Draw,
    values: Parameter,
    stems: tuple[str, ...],
    returns: str,
    verb: str,
    rest: str,
    result: str,
    body: tuple[str, ...],
    how: str,
) -> Sketch:
    """A sketch with one list of integers, with an empty list among its tests."""
    return Sketch(
        draw.name(*stems),
        (values,),
        returns,
        verb,
        rest,
        result,
        body,
        how,
        (draw.pick(([3, 8, 12, 5], [1, 4, 9, 16], [7, 2, 10, 6])),),
        draw.cases(lambda: (draw.int_list(),), extra=(([],), *(([number],) for number in draw.telling_numbers()))),
    )


def parts(draw: Draw) -> tuple[Parameter, str, Condition]:
    values = draw.parameter("int_list")
    return values, values.each, number_condition(draw)


@family
def filter_numbers(draw: Draw) -> Sketch:
    values, each, keep = parts(draw)
    return sketch(
        draw,
        values,
        (f"filter_{keep.slug}", f"keep_{keep.slug}", f"select_{keep.slug}"),
        "list[int]",
        "return",
        f"the {keep.nouns('numbers')} in a list",
        f"A list with the {keep.nouns('numbers')}.",
        (
            "result = []",
            f"for {each} in {values.name}:",
            f"    if {keep.code(each)}:",
            f"        result.append({each})",
            "return result",
        ),
        f"It goes through the list and keeps each number that {keep.predicate}.",
    )


@family
def remove_numbers(draw: Draw) -> Sketch:
    values, each, drop = parts(draw)
    return sketch(
        draw,
        values,
        (f"remove_{drop.slug}", f"drop_{drop.slug}", f"without_{drop.slug}"),
        "list[int]",
        "remove",
        f"the {drop.nouns('numbers')} from a list",
        f"A list without the {drop.nouns('numbers')}.",
        (
            "result = []",
            f"for {each} in {values.name}:",
            f"    if not ({drop.code(each)}):",
            f"        result.append({each})",
            "return result",
        ),
        f"It goes through the list and skips each number that {drop.predicate}.",
    )


@family
def count_numbers(draw: Draw) -> Sketch:
    values, each, keep = parts(draw)
    return sketch(
        draw,
        values,
        (f"count_{keep.slug}", f"number_of_{keep.slug}", f"tally_{keep.slug}"),
        "int",
        "count",
        f"the {keep.nouns('numbers')} in a list",
        f"How many numbers are {keep.predicate.removeprefix('is ')}.",
        (
            "count = 0",
            f"for {each} in {values.name}:",
            f"    if {keep.code(each)}:",
            "        count += 1",
            "return count",
        ),
        f"It adds one to the count for each number that {keep.predicate}.",
    )


@family
def sum_numbers(draw: Draw) -> Sketch:
    values, each, keep = parts(draw)
    return sketch(
        draw,
        values,
        (f"sum_{keep.slug}", f"total_{keep.slug}", f"add_{keep.slug}"),
        "int",
        "add up",
        f"the {keep.nouns('numbers')} in a list",
        f"The sum of the {keep.nouns('numbers')}.",
        (
            "total = 0",
            f"for {each} in {values.name}:",
            f"    if {keep.code(each)}:",
            f"        total += {each}",
            "return total",
        ),
        f"It adds each number that {keep.predicate} to the total.",
    )


@family
def multiply_numbers(draw: Draw) -> Sketch:
    values, each, keep = parts(draw)
    return sketch(
        draw,
        values,
        (f"multiply_{keep.slug}", f"product_{keep.slug}"),
        "int",
        "multiply",
        f"the {keep.nouns('numbers')} in a list",
        f"The product of the {keep.nouns('numbers')}.",
        (
            "product = 1",
            f"for {each} in {values.name}:",
            f"    if {keep.code(each)}:",
            f"        product *= {each}",
            "return product",
        ),
        f"It multiplies the product by each number that {keep.predicate}.",
    )


@family
def map_numbers(draw: Draw) -> Sketch:
    values = draw.parameter("int_list")
    each, change = values.each, number_transform(draw)
    return sketch(
        draw,
        values,
        (f"{change.slug}_all", f"{change.slug}_numbers", f"{change.slug}_each"),
        "list[int]",
        "return",
        f"a list with each number {change.participle}",
        f"A list with each number {change.participle}.",
        (
            "result = []",
            f"for {each} in {values.name}:",
            f"    result.append({change.code(each)})",
            "return result",
        ),
        f"It builds a new list with each number {change.participle}.",
    )


@family
def filter_map_numbers(draw: Draw) -> Sketch:
    values, each, keep = parts(draw)
    change = number_transform(draw)
    return sketch(
        draw,
        values,
        (f"{change.slug}_{keep.slug}", f"{keep.slug}_{change.slug}"),
        "list[int]",
        "return",
        f"the {keep.nouns('numbers')} in a list, each {change.participle}",
        f"The {keep.nouns('numbers')}, each {change.participle}.",
        (
            "result = []",
            f"for {each} in {values.name}:",
            f"    if {keep.code(each)}:",
            f"        result.append({change.code(each)})",
            "return result",
        ),
        f"It keeps each number that {keep.predicate} and adds it {change.participle}.",
    )


@family
def sum_mapped_numbers(draw: Draw) -> Sketch:
    values = draw.parameter("int_list")
    each, change = values.each, number_transform(draw)
    return sketch(
        draw,
        values,
        (f"sum_{change.slug}", f"total_{change.slug}"),
        "int",
        "add up",
        f"the numbers in a list, each {change.participle}",
        f"The sum of the numbers, each {change.participle}.",
        (
            "total = 0",
            f"for {each} in {values.name}:",
            f"    total += {change.code(each)}",
            "return total",
        ),
        f"It adds each number, {change.participle}, to the total.",
    )


@family
def replace_numbers(draw: Draw) -> Sketch:
    values, each, bad = parts(draw)
    k = draw.constant(0, 9)
    return sketch(
        draw,
        values,
        (f"replace_{bad.slug}", f"swap_{bad.slug}"),
        "list[int]",
        "replace",
        f"the {bad.nouns('numbers')} in a list with {k}",
        f"A list with the {bad.nouns('numbers')} replaced by {k}.",
        (
            "result = []",
            f"for {each} in {values.name}:",
            f"    if {bad.code(each)}:",
            f"        result.append({k})",
            "    else:",
            f"        result.append({each})",
            "return result",
        ),
        f"It puts {k} in place of each number that {bad.predicate}.",
    )


@family
def any_number(draw: Draw) -> Sketch:
    values, each, seek = parts(draw)
    return sketch(
        draw,
        values,
        (f"has_{seek.slug}", f"any_{seek.slug}"),
        "bool",
        "check",
        f"whether any number in a list {seek.predicate}",
        f"True if any number {seek.predicate}, otherwise False.",
        (f"for {each} in {values.name}:", f"    if {seek.code(each)}:", "        return True", "return False"),
        f"It stops at the first number that {seek.predicate}.",
    )


@family
def all_numbers(draw: Draw) -> Sketch:
    values, each, seek = parts(draw)
    return sketch(
        draw,
        values,
        (f"all_{seek.slug}", f"only_{seek.slug}"),
        "bool",
        "check",
        f"whether every number in a list {seek.predicate}",
        f"True if every number {seek.predicate}, otherwise False.",
        (f"for {each} in {values.name}:", f"    if not ({seek.code(each)}):", "        return False", "return True"),
        "It stops at the first number that fails the check.",
    )


@family
def first_number(draw: Draw) -> Sketch:
    values, each, seek = parts(draw)
    return sketch(
        draw,
        values,
        (f"first_{seek.slug}", f"find_{seek.slug}"),
        "int | None",
        "find",
        f"the first number in a list that {seek.predicate}, or None if there is none",
        f"The first number that {seek.predicate}, or None.",
        (f"for {each} in {values.name}:", f"    if {seek.code(each)}:", f"        return {each}", "return None"),
        f"It returns the first number that {seek.predicate}, and None at the end.",
    )


@family
def last_number(draw: Draw) -> Sketch:
    values, each, seek = parts(draw)
    return sketch(
        draw,
        values,
        (f"last_{seek.slug}", f"find_last_{seek.slug}"),
        "int | None",
        "find",
        f"the last number in a list that {seek.predicate}, or None if there is none",
        f"The last number that {seek.predicate}, or None.",
        (
            "result = None",
            f"for {each} in {values.name}:",
            f"    if {seek.code(each)}:",
            f"        result = {each}",
            "return result",
        ),
        f"It remembers the latest number that {seek.predicate}.",
    )


@family
def index_of_number(draw: Draw) -> Sketch:
    values, each, seek = parts(draw)
    return sketch(
        draw,
        values,
        (f"index_of_{seek.slug}", f"locate_{seek.slug}"),
        "int",
        "find",
        f"the index of the first number in a list that {seek.predicate}, or -1 if there is none",
        f"The index of the first number that {seek.predicate}, or -1.",
        (
            f"for index, {each} in enumerate({values.name}):",
            f"    if {seek.code(each)}:",
            "        return index",
            "return -1",
        ),
        f"It counts positions with enumerate and stops at the first number that {seek.predicate}.",
    )


@family
def indexes_of_numbers(draw: Draw) -> Sketch:
    values, each, seek = parts(draw)
    return sketch(
        draw,
        values,
        (f"indexes_of_{seek.slug}", f"positions_{seek.slug}"),
        "list[int]",
        "list",
        f"the indexes of the {seek.nouns('numbers')} in a list",
        f"The indexes of the {seek.nouns('numbers')}.",
        (
            "result = []",
            f"for index, {each} in enumerate({values.name}):",
            f"    if {seek.code(each)}:",
            "        result.append(index)",
            "return result",
        ),
        f"It counts positions with enumerate and keeps those where the number {seek.predicate}.",
    )


def extreme(draw: Draw, adjective: str, sign: str) -> Sketch:
    values, each, keep = parts(draw)
    return sketch(
        draw,
        values,
        (f"{adjective}_{keep.slug}", f"find_{adjective}_{keep.slug}"),
        "int | None",
        "find",
        f"the {adjective} number in a list that {keep.predicate}, or None if there is none",
        f"The {adjective} number that {keep.predicate}, or None.",
        (
            "best = None",
            f"for {each} in {values.name}:",
            f"    if {keep.code(each)} and (best is None or {each} {sign} best):",
            f"        best = {each}",
            "return best",
        ),
        f"It remembers the {adjective} number so far that {keep.predicate}.",
    )


@family
def largest_number(draw: Draw) -> Sketch:
    return extreme(draw, "largest", ">")


@family
def smallest_number(draw: Draw) -> Sketch:
    return extreme(draw, "smallest", "<")


@family
def split_numbers(draw: Draw) -> Sketch:
    values, each, keep = parts(draw)
    return sketch(
        draw,
        values,
        (f"split_{keep.slug}", f"partition_{keep.slug}"),
        "tuple[list[int], list[int]]",
        "split",
        f"a list into the {keep.nouns('numbers')} and the rest",
        f"A tuple with the {keep.nouns('numbers')} and the other numbers.",
        (
            "chosen = []",
            "rest = []",
            f"for {each} in {values.name}:",
            f"    if {keep.code(each)}:",
            f"        chosen.append({each})",
            "    else:",
            f"        rest.append({each})",
            "return chosen, rest",
        ),
        f"It puts each number that {keep.predicate} in the first list and the others in the second.",
    )
