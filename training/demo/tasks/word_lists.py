"""Families that count, join, measure and group the words of a list.

What may live here: rows that fit a list of strings alone. It may not know any text layout.
"""

from __future__ import annotations

from training.demo import inputs
from training.demo.instance import Wording
from training.demo.parts import Snippet
from training.demo.tasks.loops import ALWAYS, CHANGED, TEST, Body, count, fold, join, total
from training.demo.tasks.rows import CHANGE_WORD, KEEP_WORD, choice, given, row
from training.demo.tasks.sources import WORDS

MARK = choice("mark spoken", (", ", "a comma and a space"), ("-", "a dash"), (" ", "a space"), ("/", "a slash"))

row(
    "count_words",
    WORDS,
    (KEEP_WORD,),
    count(),
    Wording(
        ("count_{keep.slug}", "number_of_{keep.slug}"),
        "count",
        "the {kept} in a list",
        "The number of {kept}.",
        "It adds one to the count for each word that {keep.predicate}.",
    ),
)
row(
    "join_words",
    WORDS,
    (KEEP_WORD, MARK),
    join("chosen", "{mark}", "{item}", TEST),
    Wording(
        ("join_{keep.slug}", "merge_{keep.slug}"),
        "join",
        "the {kept} in a list with {spoken}",
        "One string with the {kept}.",
        "It collects each word that {keep.predicate} and joins them with {spoken}.",
    ),
)
row(
    "join_changed_words",
    WORDS,
    (CHANGE_WORD, MARK),
    join("chosen", "{mark}", CHANGED, ALWAYS),
    Wording(
        ("join_{change.slug}", "merge_{change.slug}"),
        "join",
        "the words in a list, each {change.participle}, with {spoken}",
        "One string with each word {change.participle}.",
        "It collects each word {change.participle} and joins them with {spoken}.",
    ),
)
for name, adjective, sign in (("longest_word", "longest", ">"), ("shortest_word", "shortest", "<")):
    row(
        name,
        WORDS.with_inputs(lambda draw: inputs.word_list(draw, empty=False)),
        (given(adjective=adjective, sign=sign),),
        fold("best", "{name}[0]", "best = {item}", "str", "len({item}) {sign} len(best)"),
        Wording(
            ("{adjective}_word", "find_{adjective}"),
            "find",
            "the {adjective} word in a list, taking the first one on a tie",
            "The {adjective} word.",
            "It remembers the {adjective} word so far.",
        ),
    )
row(
    "total_word_length",
    WORDS,
    (KEEP_WORD,),
    total("len({item})"),
    Wording(
        ("total_length_{keep.slug}", "letters_in_{keep.slug}"),
        "add up",
        "the lengths of the {kept} in a list",
        "The total length of the {kept}.",
        "It adds the length of each word that {keep.predicate} to the total.",
    ),
)
row(
    "group_words",
    WORDS,
    (
        choice(
            "slug spoken key key_type",
            ("length", "length", Snippet("len($)"), "int"),
            ("first_letter", "first letter", Snippet("$[0]"), "str"),
            ("last_letter", "last letter", Snippet("$[-1]"), "str"),
        ),
    ),
    Body(
        "dict[{key_type}, list[str]]",
        ("groups = {{}}",),
        ("key = {key:{item}}", "if key not in groups:", "    groups[key] = []", "groups[key].append({item})"),
        ("return groups",),
    ),
    Wording(
        ("group_by_{slug}", "groups_by_{slug}"),
        "group",
        "the words in a list by their {spoken}",
        "A dictionary from each {spoken} to its words.",
        "It adds each word to the list of its {spoken}.",
    ),
)
row(
    "word_lengths",
    WORDS,
    (KEEP_WORD,),
    fold("result", "{{}}", "result[{item}] = len({item})", "dict[str, int]"),
    Wording(
        ("lengths_{keep.slug}", "length_map_{keep.slug}"),
        "map",
        "the {kept} in a list to their lengths",
        "A dictionary from the {kept} to their lengths.",
        "It stores the length of each word that {keep.predicate}.",
    ),
)
