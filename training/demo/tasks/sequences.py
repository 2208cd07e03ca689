"""Families that carry a value along a list or build a list from counters. Knows parts and draws, no layout."""

from __future__ import annotations

from training.demo.instance import Draw, Parameter, Sketch
from training.demo.parts import number_transform
from training.demo.registry import family


def over_list(
    draw: Draw,
    values: Parameter,
    stems: tuple[str, ...],
    verb: str,
    rest: str,
    result: str,
    body: tuple[str, ...],
    how: str,
    returns: str = "list[int]",
    extra: tuple[tuple[list[int]], ...] = (([],),),
) -> Sketch:
    """A sketch with one list of integers; `extra` are argument tuples every test set starts with."""
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
        draw.cases(lambda: (draw.int_list(),), extra=extra),
    )


def over_count(
    draw: Draw,
    stems: tuple[str, ...],
    verb: str,
    rest: str,
    result: str,
    body: tuple[str, ...],
    how: str,
    parameter: Parameter,
    returns: str = "list[int]",
) -> Sketch:
    """A sketch with one small non-negative integer."""
    return Sketch(
        draw.name(*stems),
        (parameter,),
        returns,
        verb,
        rest,
        result,
        body,
        how,
        (draw.pick((5, 8, 12)),),
        draw.cases(lambda: (draw.rng.randint(1, 30),), extra=((0,),)),
    )


@family
def running_total(draw: Draw) -> Sketch:
    values, start = draw.parameter("int_list"), draw.constant(0, 12)
    each = values.each
    return over_list(
        draw,
        values,
        ("running_total", "cumulative_sum", "running_sum"),
        "return",
        f"the running totals of a list, starting from {start}",
        f"The running totals, starting from {start}.",
        (
            f"total = {start}",
            "result = []",
            f"for {each} in {values.name}:",
            f"    total += {each}",
            "    result.append(total)",
            "return result",
        ),
        f"It starts at {start}, adds each number and stores the total so far.",
    )


@family
def running_changed_total(draw: Draw) -> Sketch:
    values, change = draw.parameter("int_list"), number_transform(draw)
    each = values.each
    return over_list(
        draw,
        values,
        (f"running_{change.slug}", f"cumulative_{change.slug}"),
        "return",
        f"the running totals of a list, with each number {change.participle}",
        f"The running totals of the numbers, each {change.participle}.",
        (
            "total = 0",
            "result = []",
            f"for {each} in {values.name}:",
            f"    total += {change.code(each)}",
            "    result.append(total)",
            "return result",
        ),
        f"It adds each number, {change.participle}, and stores the total so far.",
    )


def running_extreme(draw: Draw, adjective: str, sign: str) -> Sketch:
    values = draw.parameter("int_list")
    each = values.each
    return over_list(
        draw,
        values,
        (f"running_{adjective}", f"{adjective}_so_far"),
        "return",
        f"the {adjective} number seen so far at each position of a list",
        f"The {adjective} number up to each position.",
        (
            "best = None",
            "result = []",
            f"for {each} in {values.name}:",
            f"    if best is None or {each} {sign} best:",
            f"        best = {each}",
            "    result.append(best)",
            "return result",
        ),
        f"It remembers the {adjective} number so far and stores it at each step.",
    )


@family
def running_largest(draw: Draw) -> Sketch:
    return running_extreme(draw, "largest", ">")


@family
def running_smallest(draw: Draw) -> Sketch:
    return running_extreme(draw, "smallest", "<")


def neighbours(draw: Draw, noun: str, expression: str) -> Sketch:
    values = draw.parameter("int_list")
    code = expression.replace("$", values.name)
    return over_list(
        draw,
        values,
        (f"neighbour_{noun}", f"pair_{noun}", f"adjacent_{noun}"),
        "return",
        f"the {noun} of neighbouring numbers in a list",
        f"The {noun} of each number and the one before it.",
        (
            "result = []",
            f"for index in range(1, len({values.name})):",
            f"    result.append({code})",
            "return result",
        ),
        "It visits each position after the first and looks at the number before it.",
    )


@family
def neighbour_differences(draw: Draw) -> Sketch:
    return neighbours(draw, "differences", "$[index] - $[index - 1]")


@family
def neighbour_products(draw: Draw) -> Sketch:
    return neighbours(draw, "products", "$[index] * $[index - 1]")


@family
def neighbour_sums(draw: Draw) -> Sketch:
    return neighbours(draw, "sums", "$[index] + $[index - 1]")


@family
def count_steps(draw: Draw) -> Sketch:
    values = draw.parameter("int_list")
    slug, sign = draw.pick((("larger", ">"), ("smaller", "<"), ("equal", "==")))
    relation = "equal to" if slug == "equal" else f"{slug} than"
    return over_list(
        draw,
        values,
        (f"count_{slug}_steps", f"{slug}_steps"),
        "count",
        f"how often a number in a list is {relation} the one before it",
        f"How many numbers are {relation} the one before.",
        (
            "count = 0",
            f"for index in range(1, len({values.name})):",
            f"    if {values.name}[index] {sign} {values.name}[index - 1]:",
            "        count += 1",
            "return count",
        ),
        "It compares each number with the one before it.",
        returns="int",
        extra=(([],), ([4, 4, 5, 3, 3],)),
    )


@family
def is_sorted(draw: Draw) -> Sketch:
    values = draw.parameter("int_list")
    slug, sign = draw.pick((("ascending", "<"), ("descending", ">")))
    return over_list(
        draw,
        values,
        (f"is_{slug}", f"sorted_{slug}"),
        "check",
        f"whether a list is in {slug} order",
        f"True if the list is in {slug} order, otherwise False.",
        (
            f"for index in range(1, len({values.name})):",
            f"    if {values.name}[index] {sign} {values.name}[index - 1]:",
            "        return False",
            "return True",
        ),
        "It compares each number with the one before it and stops at the first wrong pair.",
        returns="bool",
        extra=(([],), ([1, 2, 2, 5],), ([9, 4, 4, 1],)),
    )


@family
def clamp_list(draw: Draw) -> Sketch:
    values = draw.parameter("int_list")
    low = draw.constant(0, 9)
    high = draw.constant(low + 2, low + 10)
    each = values.each
    return over_list(
        draw,
        values,
        ("clamp_all", "limit_all", "clamp_list"),
        "limit",
        f"each number in a list to the range from {low} to {high}",
        f"A list with each number between {low} and {high}.",
        (
            "result = []",
            f"for {each} in {values.name}:",
            f"    result.append(max({low}, min({high}, {each})))",
            "return result",
        ),
        f"It raises small numbers to {low} and lowers large numbers to {high}.",
    )


@family
def window_sums(draw: Draw) -> Sketch:
    values, size = draw.parameter("int_list"), draw.rng.randint(2, 5)
    return over_list(
        draw,
        values,
        ("window_sums", "sliding_sums", "sums_of_windows"),
        "return",
        f"the sum of every window of {size} neighbouring numbers in a list",
        f"The sums of the windows of {size} numbers.",
        (
            "result = []",
            f"for start in range(len({values.name}) - {size - 1}):",
            f"    result.append(sum({values.name}[start:start + {size}]))",
            "return result",
        ),
        f"It slides a window of {size} numbers over the list and adds up each one.",
    )


@family
def every_kth(draw: Draw) -> Sketch:
    values, step = draw.parameter("int_list"), draw.rng.randint(2, 6)
    start = draw.rng.randint(0, 3)
    return over_list(
        draw,
        values,
        ("every_kth", "take_steps", "sample_steps"),
        "return",
        f"every number of a list in steps of {step}, starting at index {start}",
        f"The numbers at indexes {start}, {start + step} and so on.",
        (
            "result = []",
            f"for index in range({start}, len({values.name}), {step}):",
            f"    result.append({values.name}[index])",
            "return result",
        ),
        f"It starts at index {start} and moves on by {step} each time.",
    )


@family
def multiples_list(draw: Draw) -> Sketch:
    k, limit = draw.rng.randint(2, 12), draw.parameter("int")
    return over_count(
        draw,
        ("multiples", "list_multiples", "multiples_below"),
        "list",
        f"the positive multiples of {k} below a limit",
        f"The positive multiples of {k} below the limit.",
        (
            "result = []",
            f"for candidate in range({k}, {limit.name}, {k}):",
            "    result.append(candidate)",
            "return result",
        ),
        f"It counts from {k} in steps of {k} and stops before the limit.",
        limit,
    )


@family
def sum_of_multiples(draw: Draw) -> Sketch:
    k, limit = draw.rng.randint(2, 12), draw.parameter("int")
    return over_count(
        draw,
        ("sum_multiples", "total_multiples", "add_multiples"),
        "add up",
        f"the positive multiples of {k} below a limit",
        f"The sum of the positive multiples of {k} below the limit.",
        (
            "total = 0",
            f"for candidate in range({k}, {limit.name}, {k}):",
            "    total += candidate",
            "return total",
        ),
        f"It counts from {k} in steps of {k} and stops before the limit.",
        limit,
        returns="int",
    )


@family
def count_multiples(draw: Draw) -> Sketch:
    k, limit = draw.rng.randint(2, 12), draw.parameter("int")
    return over_count(
        draw,
        ("count_multiples", "number_of_multiples"),
        "count",
        f"the positive multiples of {k} below a limit",
        f"The number of positive multiples of {k} below the limit.",
        (
            "count = 0",
            f"for candidate in range({k}, {limit.name}, {k}):",
            "    count += 1",
            "return count",
        ),
        f"It counts from {k} in steps of {k} and stops before the limit.",
        limit,
        returns="int",
    )


@family
def sum_up_to(draw: Draw) -> Sketch:
    change, limit = number_transform(draw), draw.parameter("int")
    return over_count(
        draw,
        (f"sum_{change.slug}_up_to", f"total_{change.slug}_up_to"),
        "add up",
        f"the numbers from 1 up to a limit, each {change.participle}",
        f"The sum of the numbers up to the limit, each {change.participle}.",
        (
            "total = 0",
            f"for candidate in range(1, {limit.name} + 1):",
            f"    total += {change.code('candidate')}",
            "return total",
        ),
        f"It counts from 1 to the limit and adds each number, {change.participle}.",
        limit,
        returns="int",
    )


@family
def build_progression(draw: Draw) -> Sketch:
    start, k, size = draw.rng.randint(0, 12), draw.rng.randint(2, 9), draw.parameter("int")
    slug, sign = draw.pick((("adding", "+"), ("multiplying by", "*")))
    return over_count(
        draw,
        ("progression", "build_series", "make_series"),
        "build",
        f"a list of the given length that starts with {start} and grows by {slug} {k}",
        f"The first numbers of the series that starts with {start}.",
        (
            "result = []",
            f"current = {start}",
            f"for _ in range({size.name}):",
            "    result.append(current)",
            f"    current = current {sign} {k}",
            "return result",
        ),
        f"It stores the current number and then moves on by {slug} {k}.",
        size,
    )
