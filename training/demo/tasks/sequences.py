"""Families that carry a value along a list of integers or look at neighbours in it.

What may live here: rows in which the order of a list matters. It may not know any text layout.
"""

from __future__ import annotations

from training.demo import inputs
from training.demo.instance import Draw, Wording
from training.demo.tasks.loops import CHANGED, collect, count, running, stop
from training.demo.tasks.rows import CHANGE_NUMBER, Slots, choice, constant, given, limits, row
from training.demo.tasks.sources import NUMBERS

NEIGHBOURS = NUMBERS.over("for index in range(1, len({name})):")
PAIR = "{name}[index] {sign} {name}[index - 1]"


def window(draw: Draw) -> Slots:
    size = draw.rng.randint(2, 5)
    return {"size": size, "overlap": size - 1}


def stride(draw: Draw) -> Slots:
    step, start = draw.rng.randint(2, 6), draw.rng.randint(0, 3)
    return {"step": step, "start": start, "second": start + step}


row(
    "running_total",
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
    "running_changed_total",
    NUMBERS,
    (CHANGE_NUMBER,),
    running("total", "0", f"total += {CHANGED}"),
    Wording(
        ("running_{change.slug}", "cumulative_{change.slug}"),
        "return",
        "the running totals of a list, with each number {change.participle}",
        "The running totals of the numbers, each {change.participle}.",
        "It adds each number, {change.participle}, and stores the total so far.",
    ),
)
for name, adjective, sign in (("running_largest", "largest", ">"), ("running_smallest", "smallest", "<")):
    row(
        name,
        NUMBERS,
        (given(adjective=adjective, sign=sign),),
        running("best", "None", "if best is None or {item} {sign} best:", "    best = {item}"),
        Wording(
            ("running_{adjective}", "{adjective}_so_far"),
            "return",
            "the {adjective} number seen so far at each position of a list",
            "The {adjective} number up to each position.",
            "It remembers the {adjective} number so far and stores it at each step.",
        ),
    )
for name, results, sign in (
    ("neighbour_differences", "differences", "-"),
    ("neighbour_products", "products", "*"),
    ("neighbour_sums", "sums", "+"),
):
    row(
        name,
        NEIGHBOURS,
        (given(results=results, sign=sign),),
        collect(PAIR),
        Wording(
            ("neighbour_{results}", "pair_{results}", "adjacent_{results}"),
            "return",
            "the {results} of neighbouring numbers in a list",
            "The {results} of each number and the one before it.",
            "It visits each position after the first and looks at the number before it.",
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
