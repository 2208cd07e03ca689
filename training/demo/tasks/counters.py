"""Families that count up to a limit or a length.

What may live here: rows whose numbers come from a counter. It may not know any text layout.
"""

from __future__ import annotations

from training.demo.instance import Wording
from training.demo.tasks.loops import ALWAYS, CHANGED, Body, collect, count, total
from training.demo.tasks.rows import CHANGE_NUMBER, choice, integer, row
from training.demo.tasks.sources import LIMIT

MULTIPLES = LIMIT.over("for candidate in range({k}, {name}, {k}):")
COUNTS_IN_STEPS = "It counts from {k} in steps of {k} and stops before the limit."

row(
    "multiples_list",
    MULTIPLES,
    (),
    collect("candidate"),
    Wording(
        ("multiples", "list_multiples", "multiples_below"),
        "list",
        "the positive multiples of {k} below a limit",
        "The positive multiples of {k} below the limit.",
        COUNTS_IN_STEPS,
    ),
    before=(integer("k", 2, 12),),
)
row(
    "sum_of_multiples",
    MULTIPLES,
    (),
    total(when=ALWAYS),
    Wording(
        ("sum_multiples", "total_multiples", "add_multiples"),
        "add up",
        "the positive multiples of {k} below a limit",
        "The sum of the positive multiples of {k} below the limit.",
        COUNTS_IN_STEPS,
    ),
    before=(integer("k", 2, 12),),
)
row(
    "count_multiples",
    MULTIPLES,
    (),
    count(ALWAYS),
    Wording(
        ("count_multiples", "number_of_multiples"),
        "count",
        "the positive multiples of {k} below a limit",
        "The number of positive multiples of {k} below the limit.",
        COUNTS_IN_STEPS,
    ),
    before=(integer("k", 2, 12),),
)
row(
    "sum_up_to",
    LIMIT.over("for candidate in range(1, {name} + 1):"),
    (),
    total(CHANGED, ALWAYS),
    Wording(
        ("sum_{change.slug}_up_to", "total_{change.slug}_up_to"),
        "add up",
        "the numbers from 1 up to a limit, each {change.participle}",
        "The sum of the numbers up to the limit, each {change.participle}.",
        "It counts from 1 to the limit and adds each number, {change.participle}.",
    ),
    before=(CHANGE_NUMBER,),
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
