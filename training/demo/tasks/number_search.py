"""Families that search a list of integers for one number or for places.

What may live here: rows that look for something in a list of integers. It may not know any text layout.
"""

from __future__ import annotations

from training.demo.instance import Wording
from training.demo.tasks.loops import TEST, fold, keep
from training.demo.tasks.rows import KEEP_NUMBER, given, row
from training.demo.tasks.sources import NUMBERS, enumerated

row(
    "last_number",
    NUMBERS,
    (KEEP_NUMBER,),
    fold("result", "None", "result = {item}", "int | None"),
    Wording(
        ("last_{keep.slug}", "find_last_{keep.slug}"),
        "find",
        "the last number in a list that {keep.predicate}, or None if there is none",
        "The last number that {keep.predicate}, or None.",
        "It remembers the latest number that {keep.predicate}.",
    ),
)
row(
    "indexes_of_numbers",
    enumerated(NUMBERS),
    (KEEP_NUMBER,),
    keep("index"),
    Wording(
        ("indexes_of_{keep.slug}", "positions_{keep.slug}"),
        "list",
        "the indexes of the {kept} in a list",
        "The indexes of the {kept}.",
        "It counts positions with enumerate and keeps those where the number {keep.predicate}.",
    ),
)
for name, adjective, sign in (("largest_number", "largest", ">"), ("smallest_number", "smallest", "<")):
    row(
        name,
        NUMBERS,
        (KEEP_NUMBER, given(adjective=adjective, sign=sign)),
        fold("best", "None", "best = {item}", "int | None", f"{TEST} and (best is None or {{item}} {{sign}} best)"),
        Wording(
            ("{adjective}_{keep.slug}", "find_{adjective}_{keep.slug}"),
            "find",
            "the {adjective} number in a list that {keep.predicate}, or None if there is none",
            "The {adjective} number that {keep.predicate}, or None.",
            "It remembers the {adjective} number so far that {keep.predicate}.",
        ),
    )
