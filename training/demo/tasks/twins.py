"""Families that come in twins, one for numbers and one for words: filter, remove, map, any, all, first, index.

What may live here: rows whose code and wording fit both. It may not know what sets numbers and words apart, nor any
text layout.
"""

from __future__ import annotations

from collections.abc import Callable

from training.demo.instance import Draw, Wording
from training.demo.parts import Transform, number_transform, word_transform
from training.demo.tasks.loops import CHANGED, FAILED_TEST, collect, keep, stop, straight
from training.demo.tasks.rows import CHANGE_NUMBER, CHANGE_WORD, KEEP_NUMBER, KEEP_WORD, Part, drawn, row
from training.demo.tasks.sources import NUMBER, NUMBERS, TEXT, WORDS, Source, enumerated


def list_families(source: Source, drawn_keep: Part, drawn_change: Part) -> None:
    """`filter_numbers`, `any_number` and so on, named by the noun of `source`."""
    one, many = source.noun, f"{source.noun}s"
    row(
        f"filter_{many}",
        source,
        (drawn_keep,),
        keep(),
        Wording(
            ("filter_{keep.slug}", "keep_{keep.slug}", "select_{keep.slug}"),
            "return",
            "the {kept} in a list",
            "A list with the {kept}.",
            "It goes through the list and keeps each {noun} that {keep.predicate}.",
        ),
    )
    row(
        f"remove_{many}",
        source,
        (drawn_keep,),
        keep(when=FAILED_TEST),
        Wording(
            ("remove_{keep.slug}", "drop_{keep.slug}", "without_{keep.slug}"),
            "remove",
            "the {kept} from a list",
            "A list without the {kept}.",
            "It goes through the list and skips each {noun} that {keep.predicate}.",
        ),
    )
    row(
        f"map_{many}",
        source,
        (drawn_change,),
        collect(),
        Wording(
            ("{change.slug}_all", "{change.slug}_{noun}s", "{change.slug}_each"),
            "return",
            "a list with each {noun} {change.participle}",
            "A list with each {noun} {change.participle}.",
            "It builds a new list with each {noun} {change.participle}.",
        ),
    )
    row(
        f"filter_map_{many}",
        source,
        (drawn_keep, drawn_change),
        keep(CHANGED),
        Wording(
            ("{change.slug}_{keep.slug}", "{keep.slug}_{change.slug}"),
            "return",
            "the {kept} in a list, each {change.participle}",
            "The {kept}, each {change.participle}.",
            "It keeps each {noun} that {keep.predicate} and adds it {change.participle}.",
        ),
    )
    row(
        f"any_{one}",
        source,
        (drawn_keep,),
        stop("True", "False", "bool"),
        Wording(
            ("has_{keep.slug}", "any_{keep.slug}"),
            "check",
            "whether any {noun} in a list {keep.predicate}",
            "True if any {noun} {keep.predicate}, otherwise False.",
            "It stops at the first {noun} that {keep.predicate}.",
        ),
    )
    row(
        f"all_{many}",
        source,
        (drawn_keep,),
        stop("False", "True", "bool", FAILED_TEST),
        Wording(
            ("all_{keep.slug}", "only_{keep.slug}"),
            "check",
            "whether every {noun} in a list {keep.predicate}",
            "True if every {noun} {keep.predicate}, otherwise False.",
            "It stops at the first {noun} that fails the check.",
        ),
    )
    row(
        f"first_{one}",
        source,
        (drawn_keep,),
        stop("{item}", "None", "{type} | None"),
        Wording(
            ("first_{keep.slug}", "find_{keep.slug}"),
            "find",
            "the first {noun} in a list that {keep.predicate}, or None if there is none",
            "The first {noun} that {keep.predicate}, or None.",
            "It returns the first {noun} that {keep.predicate}, and None at the end.",
        ),
    )
    row(
        f"index_of_{one}",
        enumerated(source),
        (drawn_keep,),
        stop("index", "-1", "int"),
        Wording(
            ("index_of_{keep.slug}", "locate_{keep.slug}"),
            "find",
            "the index of the first {noun} in a list that {keep.predicate}, or -1 if there is none",
            "The index of the first {noun} that {keep.predicate}, or -1.",
            "It counts positions with enumerate and stops at the first {noun} that {keep.predicate}.",
        ),
    )


def family_of_two_changes(name: str, source: Source, transform: Callable[[Draw], Transform]) -> None:
    row(
        name,
        source,
        (drawn("first", transform), drawn("second", transform)),
        straight("{type}", "result = {first:{item}}", "result = {second:result}", "return result"),
        Wording(
            ("{first.slug}_then_{second.slug}", "{first.slug}_and_{second.slug}"),
            "return",
            "a {noun} first {first.participle} and then {second.participle}",
            "The {noun} {first.participle} and then {second.participle}.",
            "It applies the two changes in order.",
        ),
    )


list_families(NUMBERS, KEEP_NUMBER, CHANGE_NUMBER)
list_families(WORDS, KEEP_WORD, CHANGE_WORD)
family_of_two_changes("two_changes", NUMBER, number_transform)
family_of_two_changes("change_text", TEXT, word_transform)
