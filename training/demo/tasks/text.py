"""Families over one string as a whole.

What may live here: rows about the form of a text. It may not know any text layout.
"""

from __future__ import annotations

from training.demo.instance import Wording
from training.demo.parts import Snippet
from training.demo.tasks.loops import ALWAYS, fold, straight
from training.demo.tasks.rows import choice, integer, row
from training.demo.tasks.sources import PARTS, TEXT

row(
    "is_palindrome",
    TEXT,
    (choice("ignoring cleaning", (", ignoring case", ".lower()"), ("", "")),),
    straight("bool", "cleaned = {name}{cleaning}", "return cleaned == cleaned[::-1]"),
    Wording(
        ("is_palindrome", "check_palindrome", "reads_same"),
        "check",
        "whether a text reads the same backwards{ignoring}",
        "True if the text is a palindrome, otherwise False.",
        "It compares the text with its reverse.",
    ),
)
row(
    "shorten_text",
    TEXT,
    (integer("k", 3, 15), choice("mark", ("...",), ("~",), ("..",), ("*",))),
    straight("str", "if len({name}) <= {k}:", "    return {name}", 'return {name}[:{k}] + "{mark}"'),
    Wording(
        ("shorten", "truncate", "cut_text"),
        "cut",
        "a text to {k} characters, with '{mark}' added if it was longer",
        "The text, or its first {k} characters and '{mark}'.",
        "It returns short texts unchanged and cuts the others after {k} characters.",
    ),
)
row(
    "pad_text",
    TEXT,
    (
        integer("k", 6, 20),
        choice("mark", *"-_*#.0"),
        choice("side padded", ("left", Snippet("'$' + result")), ("right", Snippet("result + '$'"))),
    ),
    straight("str", "result = {name}", "while len(result) < {k}:", "    result = {padded:{mark}}", "return result"),
    Wording(
        ("pad_{side}", "fill_{side}"),
        "pad",
        "a text on the {side} with '{mark}' until it has {k} characters",
        "The text with at least {k} characters.",
        "It adds '{mark}' on the {side} while the text is too short.",
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
