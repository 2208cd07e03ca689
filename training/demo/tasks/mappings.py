"""Families over a dictionary from names to integers.

What may live here: rows about entries, keys and values. It may not know any text layout.
"""

from __future__ import annotations

from training.demo.instance import Wording
from training.demo.tasks.loops import ALWAYS, CHANGED, fold
from training.demo.tasks.rows import CHANGE_NUMBER, KEEP_NUMBER, row
from training.demo.tasks.sources import ENTRIES

row(
    "map_entries",
    ENTRIES,
    (CHANGE_NUMBER,),
    fold("result", "{{}}", f"result[key] = {CHANGED}", "dict[str, int]", ALWAYS),
    Wording(
        ("{change.slug}_values", "{change.slug}_entries"),
        "return",
        "a dictionary with each value {change.participle}",
        "A dictionary with each value {change.participle}.",
        "It builds a new dictionary with each value {change.participle}.",
    ),
)
row(
    "filter_map_entries",
    ENTRIES,
    (KEEP_NUMBER, CHANGE_NUMBER),
    fold("result", "{{}}", f"result[key] = {CHANGED}", "dict[str, int]"),
    Wording(
        ("{change.slug}_{keep.slug}_values", "{change.slug}_{keep.slug}_entries"),
        "return",
        "the entries of a dictionary whose value {keep.predicate}, with each value {change.participle}",
        "The entries whose value {keep.predicate}, each value {change.participle}.",
        "It keeps each entry whose value {keep.predicate} and stores the value {change.participle}.",
    ),
)
row(
    "invert_mapping",
    ENTRIES,
    (KEEP_NUMBER,),
    fold("result", "{{}}", "result[value] = key", "dict[int, str]"),
    Wording(
        ("invert_{keep.slug}", "flip_{keep.slug}"),
        "swap",
        "the keys and values of a dictionary where the value {keep.predicate}",
        "A dictionary from the values to the keys.",
        "It swaps key and value of each entry whose value {keep.predicate}.",
    ),
)
