"""Families that carry a value along a list of integers or look at neighbours in it.

What may live here: rows in which the order of a list matters. It may not know any text layout.
"""

from __future__ import annotations

from training.demo import inputs
from training.demo.instance import InstanceDraw, Wording
from training.demo.tasks.loops import Body, collect, count, running, stop
from training.demo.tasks.rows import Slots, choice, constant, integer, limits, row
from training.demo.tasks.sources import LIMIT, NUMBERS

NEIGHBOURS = NUMBERS.over("for index in range(1, len({name})):")
PAIR = "{name}[index] {sign} {name}[index - 1]"


def window(draw: InstanceDraw) -> Slots:
    size = draw.rng.randint(2, 5)
    return {"size": size, "overlap": size - 1}


def stride(draw: InstanceDraw) -> Slots:
    step, start = draw.rng.randint(2, 6), draw.rng.randint(0, 3)
    return {"step": step, "start": start, "second": start + step}


row(
    "running_total_from",
    NUMBERS,
    (constant("start", 0, 12),),
    running("total", "{start}", "total += {item}"),
    Wording(
        ("running_total", "cumulative_sum", "running_sum"),
        "return",
        "the running totals of a list, starting from {start}",
        "The running totals, starting from {start}.",
        "It starts at {start}, adds each number and stores the total so far.",
    ),
)
row(
    "count_steps",
    NEIGHBOURS.with_inputs(lambda draw: inputs.number_list(draw, [4, 4, 5, 3, 3])),
    (
        choice(
            "slug relation sign",
            ("larger", "larger than", ">"),
            ("smaller", "smaller than", "<"),
            ("equal", "equal to", "=="),
        ),
    ),
    count(PAIR),
    Wording(
        ("count_{slug}_steps", "{slug}_steps"),
        "count",
        "how often a number in a list is {relation} the one before it",
        "How many numbers are {relation} the one before.",
        "It compares each number with the one before it.",
    ),
)
row(
    "is_sorted",
    NEIGHBOURS.with_inputs(lambda draw: inputs.number_list(draw, [1, 2, 2, 5], [9, 4, 4, 1])),
    (choice("slug sign", ("ascending", "<"), ("descending", ">")),),
    stop("False", "True", "bool", PAIR),
    Wording(
        ("is_{slug}", "sorted_{slug}"),
        "check",
        "whether a list is in {slug} order",
        "True if the list is in {slug} order, otherwise False.",
        "It compares each number with the one before it and stops at the first wrong pair.",
    ),
)
row(
    "clamp_list",
    NUMBERS,
    (limits(0, 9, 2, 10),),
    collect("max({low}, min({high}, {item}))"),
    Wording(
        ("clamp_all", "limit_all", "clamp_list"),
        "limit",
        "each number in a list to the range from {low} to {high}",
        "A list with each number between {low} and {high}.",
        "It raises small numbers to {low} and lowers large numbers to {high}.",
    ),
)
row(
    "window_sums",
    NUMBERS.over("for start in range(len({name}) - {overlap}):"),
    (window,),
    collect("sum({name}[start:start + {size}])"),
    Wording(
        ("window_sums", "sliding_sums", "sums_of_windows"),
        "return",
        "the sum of every window of {size} neighbouring numbers in a list",
        "The sums of the windows of {size} numbers.",
        "It slides a window of {size} numbers over the list and adds up each one.",
    ),
)
row(
    "every_kth",
    NUMBERS.over("for index in range({start}, len({name}), {step}):"),
    (stride,),
    collect("{name}[index]"),
    Wording(
        ("every_kth", "take_steps", "sample_steps"),
        "return",
        "every number of a list in steps of {step}, starting at index {start}",
        "The numbers at indexes {start}, {second} and so on.",
        "It starts at index {start} and moves on by {step} each time.",
    ),
)
row(
    "build_progression",
    LIMIT.over("for _ in range({name}):"),
    (choice("growth sign", ("adding", "+"), ("multiplying by", "*")),),
    Body(
        "list[int]",
        ("result = []", "current = {start}"),
        ("result.append(current)", "current = current {sign} {k}"),
        ("return result",),
    ),
    Wording(
        ("progression", "build_series", "make_series"),
        "build",
        "a list of the given length that starts with {start} and grows by {growth} {k}",
        "The first numbers of the series that starts with {start}.",
        "It stores the current number and then moves on by {growth} {k}.",
    ),
    before=(integer("start", 0, 12), integer("k", 2, 9)),
)
