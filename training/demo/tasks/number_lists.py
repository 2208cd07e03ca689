"""Families that select, count, add up or change the numbers of a list.

What may live here: rows over a list of integers taken as a whole. It may not know any text layout.
"""

from __future__ import annotations

from training.demo.instance import Wording
from training.demo.tasks.loops import ALWAYS, CHANGED, count, either, fold, split, total
from training.demo.tasks.rows import CHANGE_NUMBER, KEEP_NUMBER, constant, row
from training.demo.tasks.sources import NUMBERS

row(
    "count_numbers",
    NUMBERS,
    (KEEP_NUMBER,),
    count(),
    Wording(
        ("count_{keep.slug}", "number_of_{keep.slug}", "tally_{keep.slug}"),
        "count",
        "the {kept} in a list",
        "How many numbers are {keep.state}.",
        "It adds one to the count for each number that {keep.predicate}.",
    ),
)
row(
    "sum_numbers",
    NUMBERS,
    (KEEP_NUMBER,),
    total(),
    Wording(
        ("sum_{keep.slug}", "total_{keep.slug}", "add_{keep.slug}"),
        "add up",
        "the {kept} in a list",
        "The sum of the {kept}.",
        "It adds each number that {keep.predicate} to the total.",
    ),
)
row(
    "multiply_numbers",
    NUMBERS,
    (KEEP_NUMBER,),
    fold("product", "1", "product *= {item}"),
    Wording(
        ("multiply_{keep.slug}", "product_{keep.slug}"),
        "multiply",
        "the {kept} in a list",
        "The product of the {kept}.",
        "It multiplies the product by each number that {keep.predicate}.",
    ),
)
row(
    "sum_mapped_numbers",
    NUMBERS,
    (CHANGE_NUMBER,),
    total(CHANGED, ALWAYS),
    Wording(
        ("sum_{change.slug}", "total_{change.slug}"),
        "add up",
        "the numbers in a list, each {change.participle}",
        "The sum of the numbers, each {change.participle}.",
        "It adds each number, {change.participle}, to the total.",
    ),
)
row(
    "replace_numbers",
    NUMBERS,
    (KEEP_NUMBER, constant("k", 0, 9)),
    either(("result = []",), "result.append({k})", "result.append({item})", "result", "list[int]"),
    Wording(
        ("replace_{keep.slug}", "swap_{keep.slug}"),
        "replace",
        "the {kept} in a list with {k}",
        "A list with the {kept} replaced by {k}.",
        "It puts {k} in place of each number that {keep.predicate}.",
    ),
)
row(
    "split_numbers",
    NUMBERS,
    (KEEP_NUMBER,),
    split("{item}", "tuple[list[int], list[int]]"),
    Wording(
        ("split_{keep.slug}", "partition_{keep.slug}"),
        "split",
        "a list into the {kept} and the rest",
        "A tuple with the {kept} and the other numbers.",
        "It puts each number that {keep.predicate} in the first list and the others in the second.",
    ),
)
