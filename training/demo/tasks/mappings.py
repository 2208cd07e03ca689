"""Families over a dictionary from names to integers.

What may live here: rows about entries, keys and values. It may not know any text layout.
"""

from __future__ import annotations

from training.demo.instance import Wording
from training.demo.tasks.loops import ALWAYS, CHANGED, FAILED_TEST, count, fold, keep, split, stop, total
from training.demo.tasks.rows import CHANGE_NUMBER, KEEP_NUMBER, given, row
from training.demo.tasks.sources import ENTRIES, VALUES

row(
    "filter_entries",
    ENTRIES,
    (KEEP_NUMBER,),
    fold("result", "{{}}", "result[key] = value", "dict[str, int]"),
    Wording(
        ("filter_{keep.slug}_entries", "keep_{keep.slug}_entries", "{keep.slug}_entries"),
        "return",
        "the entries of a dictionary whose value {keep.predicate}",
        "The entries whose value {keep.predicate}.",
        "It keeps each entry whose value {keep.predicate}.",
    ),
)
row(
    "keys_of_entries",
    ENTRIES,
    (KEEP_NUMBER,),
    keep("key", "list[str]"),
    Wording(
        ("{keep.slug}_keys", "keys_{keep.slug}"),
        "list",
        "the keys of a dictionary whose value {keep.predicate}",
        "The keys whose value {keep.predicate}.",
        "It keeps the key of each entry whose value {keep.predicate}.",
    ),
)
row(
    "sum_entries",
    ENTRIES,
    (KEEP_NUMBER,),
    total(),
    Wording(
        ("sum_{keep.slug}_values", "total_{keep.slug}_values"),
        "add up",
        "the values of a dictionary where the value {keep.predicate}",
        "The sum of those values.",
        "It adds each value that {keep.predicate} to the total.",
    ),
)
row(
    "count_entries",
    ENTRIES,
    (KEEP_NUMBER,),
    count(),
    Wording(
        ("count_{keep.slug}_entries", "number_of_{keep.slug}_values"),
        "count",
        "the entries of a dictionary whose value {keep.predicate}",
        "The number of entries whose value {keep.predicate}.",
        "It counts each entry whose value {keep.predicate}.",
    ),
)
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
    "any_entry",
    VALUES,
    (KEEP_NUMBER,),
    stop("True", "False", "bool"),
    Wording(
        ("has_{keep.slug}_value", "any_{keep.slug}_value"),
        "check",
        "whether any value in a dictionary {keep.predicate}",
        "True if any value {keep.predicate}, otherwise False.",
        "It stops at the first value that {keep.predicate}.",
    ),
)
row(
    "all_entries",
    VALUES,
    (KEEP_NUMBER,),
    stop("False", "True", "bool", FAILED_TEST),
    Wording(
        ("all_{keep.slug}_values", "only_{keep.slug}_values"),
        "check",
        "whether every value in a dictionary {keep.predicate}",
        "True if every value {keep.predicate}, otherwise False.",
        "It stops at the first value that fails the check.",
    ),
)
for name, adjective, sign in (("key_of_largest", "largest", ">"), ("key_of_smallest", "smallest", "<")):
    row(
        name,
        ENTRIES,
        (given(adjective=adjective, sign=sign),),
        fold("best", "None", "best = key", "str | None", "best is None or value {sign} {name}[best]"),
        Wording(
            ("key_of_{adjective}", "{adjective}_key"),
            "find",
            "the key with the {adjective} value in a dictionary, or None if it is empty",
            "The key with the {adjective} value, or None.",
            "It remembers the key with the {adjective} value so far.",
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
row(
    "group_keys",
    ENTRIES,
    (KEEP_NUMBER,),
    split("key", "tuple[list[str], list[str]]"),
    Wording(
        ("split_keys_{keep.slug}", "partition_keys_{keep.slug}"),
        "split",
        "the keys of a dictionary into those whose value {keep.predicate} and the rest",
        "A tuple with the two lists of keys.",
        "It puts each key whose value {keep.predicate} in the first list.",
    ),
)
