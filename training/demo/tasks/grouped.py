"""Families that make one number of each row or column, and families that pick the element with the best of something.

What may live here: tables of groups, statistics and keys, and the rows they give. It may not know any text layout.
"""

from __future__ import annotations

from training.demo.instance import Wording
from training.demo.tasks.loops import straight
from training.demo.tasks.rows import KEEP_SOME_NUMBERS, LETTER, given, integer, row
from training.demo.tasks.sources import ENTRIES, NUMBERS, PARTS, ROWS, WORDS

GROUPS = (("row", "{name}"), ("column", "zip(*{name})"))
STATISTICS = (
    ("sum", "sum", "int", "sum({group})"),
    ("smallest", "minimum", "int", "min({group})"),
    ("largest", "maximum", "int", "max({group})"),
    ("average", "average", "float", "sum({group}) / len({group})"),
    ("first", "first number", "int", "{group}[0]"),
    ("last", "last number", "int", "{group}[-1]"),
    ("spread", "difference between maximum and minimum", "int", "max({group}) - min({group})"),
)
CHOSEN_STATISTICS = (
    ("kept_sum", "sum", "sum({kept})"),
    ("kept_count", "number", "len({kept})"),
)

for group, groups in GROUPS:
    for slug, statistic, returns, code in STATISTICS:
        row(
            f"{group}_{slug}",
            ROWS.over(),
            (given(group=group, statistic=statistic, slug=slug),),
            straight(f"list[{returns}]", f"return [{code} for {{group}} in {groups}]"),
            Wording(
                ("{group}_{slug}", "{slug}_of_{group}s", "each_{group}_{slug}"),
                "return",
                "the {statistic} of each {group} of a matrix",
                "A list with the {statistic} of each {group}.",
                "Go through each {group} of the matrix; then list the {statistic} of each.",
            ),
        )
    for slug, statistic, code in CHOSEN_STATISTICS:
        chosen = code.format(kept="[value for value in {group} if {keep:value}]")
        row(
            f"{group}_{slug}",
            ROWS.over(),
            (KEEP_SOME_NUMBERS, given(group=group, statistic=statistic, slug=slug)),
            straight("list[int]", f"return [{chosen} for {{group}} in {groups}]"),
            Wording(
                ("{group}_{slug}", "{slug}_of_{group}s", "each_{group}_{slug}"),
                "return",
                "the {statistic} of the {kept} in each {group} of a matrix"
                if statistic == "sum"
                else "the number of {kept} in each {group} of a matrix",
                "A list with one result for each {group}.",
                "Go through each {group} of the matrix and take the numbers that {keep.many}; then list the "
                "{statistic} of each.",
            ),
        )

KEYED = (
    ("key", ENTRIES, "value", "in a dictionary", "str", "{name}", "{name}.get", ()),
    ("row", ROWS, "sum", "in a matrix", "list[int]", "{name}", "sum", ()),
    ("number", NUMBERS, "absolute value", "in a list", "int", "{name}", "abs", ()),
    (
        "number", NUMBERS, "remainder modulo {k}", "in a list", "int", "{name}", "lambda each: each % {k}",
        (integer("k", 3, 9),),
    ),
    (
        "word", WORDS, "number of letters '{letter}'", "in a list", "str", "{name}",
        "lambda each: each.count('{letter}')", (LETTER,),
    ),
    (
        "word", PARTS, "number of letters '{letter}'", "in a text", "str", "{name}.split()",
        "lambda each: each.count('{letter}')", (LETTER,),
    ),
)  # fmt: skip

for noun, source, measure, place, returns, elements, key, parts in KEYED:
    for adjective, call in (("largest", "max"), ("smallest", "min")):
        slug = measure.partition(" ")[0]
        name = f"{noun}_of_{adjective}" if noun == "key" else f"{source.kind}_with_{adjective}_{slug}"
        row(
            name,
            source.over(),
            (*parts, given(adjective=adjective)),
            straight(f"{returns} | None", f"return {call}({elements}, key={key}, default=None)"),
            Wording(
                (f"{adjective}_{noun}", f"{noun}_of_{adjective}", f"{adjective}_by_{slug}"),
                "find",
                f"the {noun} with the {adjective} {measure} {place}, the first one on a tie, or None if there is none",
                f"The {noun} with the {adjective} {measure}, or None.",
                f"Compare each {noun} by its {measure}; then return the one with the {adjective}.",
            ),
        )
