"""Families over the words of one string.

What may live here: rows that split a text first, and counts of its pieces. It may not know any text layout.
"""

from __future__ import annotations

from training.demo.instance import Wording
from training.demo.tasks.loops import ALWAYS, CHANGED, TEST, count, fold, join
from training.demo.tasks.rows import CHANGE_WORD, KEEP_WORD, choice, row
from training.demo.tasks.sources import PARTS

row(
    "count_text_words",
    PARTS,
    (KEEP_WORD,),
    count(),
    Wording(
        ("count_{keep.slug}_words", "{keep.slug}_word_count"),
        "count",
        "the {kept} in a text",
        "The number of {kept}.",
        "It splits the text and counts each word that {keep.predicate}.",
    ),
)
row(
    "keep_text_words",
    PARTS,
    (KEEP_WORD,),
    join("result", " ", "part", TEST),
    Wording(
        ("keep_{keep.slug}_words", "{keep.slug}_words"),
        "return",
        "a text with only the {kept}",
        "The {kept}, joined with spaces.",
        "It splits the text and keeps each word that {keep.predicate}.",
    ),
)
row(
    "map_text_words",
    PARTS,
    (CHANGE_WORD,),
    join("result", " ", CHANGED, ALWAYS),
    Wording(
        ("{change.slug}_words", "{change.slug}_each_word"),
        "return",
        "a text with each word {change.participle}",
        "The text with each word {change.participle}.",
        "It splits the text and joins the words again, each {change.participle}.",
    ),
)
row(
    "initials",
    PARTS,
    (
        choice("spoken index", ("first", "0"), ("last", "-1")),
        choice("case changed", (" in upper case", ".upper()"), (" in lower case", ".lower()"), ("", "")),
    ),
    fold("result", '""', "result += part[{index}]{changed}", "str", ALWAYS),
    Wording(
        ("{spoken}_letters", "take_{spoken}_letters"),
        "return",
        "the {spoken} letter of each word in a text{case}",
        "The {spoken} letters in one string.",
        "It splits the text and takes the {spoken} letter of each word.",
    ),
)
row(
    "char_counts",
    PARTS.over("for key in {name}{pieces}:"),
    (
        choice(
            "spoken pieces keys",
            ("character", "", "characters"),
            ("word", ".split()", "words"),
            ("letter, ignoring case,", ".lower()", "letters"),
        ),
    ),
    fold("counts", "{{}}", "counts[key] = counts.get(key, 0) + 1", "dict[str, int]", ALWAYS),
    Wording(
        ("{keys}_counts", "{keys}_frequency"),
        "count",
        "how often each {spoken} appears in a text",
        "A dictionary from the {keys} to their counts.",
        "It adds one to the entry of each key it meets.",
    ),
)
