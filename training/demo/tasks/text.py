"""Families over the characters of one string and over the string as a whole.

What may live here: rows about letters, kinds of characters and lengths. It may not know any text layout.
"""

from __future__ import annotations

from training.demo.instance import Wording
from training.demo.parts import Snippet
from training.demo.tasks.loops import Body, count, either, fold, keep, stop, straight
from training.demo.tasks.rows import LETTER, choice, integer, row
from training.demo.tasks.sources import CHARS, TEXT, enumerated

IS_LETTER = "char == '{letter}'"
VOWELS = ("vowels", "vowels", 'char.lower() in "aeiou"')
DIGITS = ("digits", "digits", "char.isdigit()")
SPACES = ("spaces", "spaces", 'char == " "')
CAPITALS = ("capitals", "upper case letters", "char.isupper()")
LETTERS = ("letters", "letters", "char.isalpha()")


def keep_chars(when: str) -> Body:
    return fold("result", '""', "result += char", "str", when)


row(
    "count_letter",
    CHARS,
    (LETTER,),
    count(IS_LETTER),
    Wording(
        ("count_{letter}", "count_letter", "letter_count"),
        "count",
        "how often the letter '{letter}' appears in a text",
        "How often '{letter}' appears.",
        "It looks at each character and counts those equal to '{letter}'.",
    ),
)
row(
    "remove_letter",
    CHARS,
    (LETTER,),
    keep_chars("char != '{letter}'"),
    Wording(
        ("remove_{letter}", "remove_letter", "drop_letter"),
        "remove",
        "every letter '{letter}' from a text",
        "The text without '{letter}'.",
        "It keeps each character that is not '{letter}'.",
    ),
)
row(
    "replace_letter",
    CHARS,
    (LETTER, choice("mark", *"-_*#+xz")),
    either(('result = ""',), "result += '{mark}'", "result += char", "result", "str", IS_LETTER),
    Wording(
        ("replace_{letter}", "replace_letter", "swap_letter"),
        "replace",
        "every letter '{letter}' in a text with '{mark}'",
        "The text with '{mark}' in place of '{letter}'.",
        "It puts '{mark}' wherever it meets '{letter}'.",
    ),
)
row(
    "find_letter",
    enumerated(CHARS),
    (LETTER,),
    stop("index", "-1", "int", IS_LETTER),
    Wording(
        ("find_{letter}", "find_letter", "locate_letter"),
        "find",
        "the index of the first letter '{letter}' in a text, or -1 if there is none",
        "The index of the first '{letter}', or -1.",
        "It counts positions with enumerate and stops at the first '{letter}'.",
    ),
)
row(
    "letter_indexes",
    enumerated(CHARS),
    (LETTER,),
    keep("index", "list[int]", IS_LETTER),
    Wording(
        ("indexes_of_{letter}", "letter_indexes", "letter_positions"),
        "list",
        "the indexes of the letter '{letter}' in a text",
        "The indexes of '{letter}'.",
        "It counts positions with enumerate and keeps those of '{letter}'.",
    ),
)
row(
    "count_kind",
    CHARS,
    (choice("slug spoken test", VOWELS, DIGITS, SPACES, CAPITALS, LETTERS),),
    count("{test}"),
    Wording(
        ("count_{slug}", "number_of_{slug}"),
        "count",
        "the {spoken} in a text",
        "The number of {spoken}.",
        "It looks at each character and counts the {spoken}.",
    ),
)
row(
    "keep_kind",
    CHARS,
    (choice("slug spoken test", VOWELS, DIGITS, CAPITALS, LETTERS),),
    keep_chars("{test}"),
    Wording(
        ("keep_{slug}", "only_{slug}", "extract_{slug}"),
        "return",
        "only the {spoken} of a text",
        "The {spoken} of the text.",
        "It keeps each character that is among the {spoken}.",
    ),
)
row(
    "remove_vowels",
    CHARS,
    (),
    keep_chars('char.lower() not in "aeiou"'),
    Wording(
        ("remove_vowels", "drop_vowels", "without_vowels"),
        "remove",
        "the vowels from a text",
        "The text without vowels.",
        "It keeps each character that is not a vowel.",
    ),
)
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
