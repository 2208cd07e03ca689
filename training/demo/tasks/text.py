"""Families over one string: count, remove, change, measure. Knows parts and draws, no layout."""

from __future__ import annotations

from training.demo.instance import Draw, Parameter, Sketch
from training.demo.parts import word_condition, word_transform
from training.demo.registry import family


def sketch(
    draw: Draw,
    text: Parameter,
    stems: tuple[str, ...],
    returns: str,
    verb: str,
    rest: str,
    result: str,
    body: tuple[str, ...],
    how: str,
) -> Sketch:
    """A sketch with one string, with the empty string among its tests."""
    return Sketch(
        draw.name(*stems),
        (text,),
        returns,
        verb,
        rest,
        result,
        body,
        how,
        (draw.pick(("hello world", "Good morning", "banana split")),),
        draw.cases(lambda: (draw.sentence(),), extra=(("",), *((word,) for word in draw.telling_words()))),
    )


@family
def count_letter(draw: Draw) -> Sketch:
    text, c = draw.parameter("text"), draw.letter()
    return sketch(
        draw,
        text,
        (f"count_{c}", "count_letter", "letter_count"),
        "int",
        "count",
        f"how often the letter '{c}' appears in a text",
        f"How often '{c}' appears.",
        (
            "count = 0",
            f"for char in {text.name}:",
            f"    if char == '{c}':",
            "        count += 1",
            "return count",
        ),
        f"It looks at each character and counts those equal to '{c}'.",
    )


@family
def remove_letter(draw: Draw) -> Sketch:
    text, c = draw.parameter("text"), draw.letter()
    return sketch(
        draw,
        text,
        (f"remove_{c}", "remove_letter", "drop_letter"),
        "str",
        "remove",
        f"every letter '{c}' from a text",
        f"The text without '{c}'.",
        (
            'result = ""',
            f"for char in {text.name}:",
            f"    if char != '{c}':",
            "        result += char",
            "return result",
        ),
        f"It keeps each character that is not '{c}'.",
    )


@family
def replace_letter(draw: Draw) -> Sketch:
    text, c, mark = draw.parameter("text"), draw.letter(), draw.pick("-_*#+xz")
    return sketch(
        draw,
        text,
        (f"replace_{c}", "replace_letter", "swap_letter"),
        "str",
        "replace",
        f"every letter '{c}' in a text with '{mark}'",
        f"The text with '{mark}' in place of '{c}'.",
        (
            'result = ""',
            f"for char in {text.name}:",
            f"    if char == '{c}':",
            f"        result += '{mark}'",
            "    else:",
            "        result += char",
            "return result",
        ),
        f"It puts '{mark}' wherever it meets '{c}'.",
    )


@family
def find_letter(draw: Draw) -> Sketch:
    text, c = draw.parameter("text"), draw.letter()
    return sketch(
        draw,
        text,
        (f"find_{c}", "find_letter", "locate_letter"),
        "int",
        "find",
        f"the index of the first letter '{c}' in a text, or -1 if there is none",
        f"The index of the first '{c}', or -1.",
        (
            f"for index, char in enumerate({text.name}):",
            f"    if char == '{c}':",
            "        return index",
            "return -1",
        ),
        f"It counts positions with enumerate and stops at the first '{c}'.",
    )


@family
def letter_indexes(draw: Draw) -> Sketch:
    text, c = draw.parameter("text"), draw.letter()
    return sketch(
        draw,
        text,
        (f"indexes_of_{c}", "letter_indexes", "letter_positions"),
        "list[int]",
        "list",
        f"the indexes of the letter '{c}' in a text",
        f"The indexes of '{c}'.",
        (
            "result = []",
            f"for index, char in enumerate({text.name}):",
            f"    if char == '{c}':",
            "        result.append(index)",
            "return result",
        ),
        f"It counts positions with enumerate and keeps those of '{c}'.",
    )


@family
def count_kind(draw: Draw) -> Sketch:
    text = draw.parameter("text")
    slug, spoken, code = draw.pick(
        (
            ("vowels", "vowels", 'char.lower() in "aeiou"'),
            ("digits", "digits", "char.isdigit()"),
            ("spaces", "spaces", 'char == " "'),
            ("capitals", "upper case letters", "char.isupper()"),
            ("letters", "letters", "char.isalpha()"),
        )
    )
    return sketch(
        draw,
        text,
        (f"count_{slug}", f"number_of_{slug}"),
        "int",
        "count",
        f"the {spoken} in a text",
        f"The number of {spoken}.",
        ("count = 0", f"for char in {text.name}:", f"    if {code}:", "        count += 1", "return count"),
        f"It looks at each character and counts the {spoken}.",
    )


@family
def keep_kind(draw: Draw) -> Sketch:
    text = draw.parameter("text")
    slug, spoken, code = draw.pick(
        (
            ("vowels", "vowels", 'char.lower() in "aeiou"'),
            ("digits", "digits", "char.isdigit()"),
            ("capitals", "upper case letters", "char.isupper()"),
            ("letters", "letters", "char.isalpha()"),
        )
    )
    return sketch(
        draw,
        text,
        (f"keep_{slug}", f"only_{slug}", f"extract_{slug}"),
        "str",
        "return",
        f"only the {spoken} of a text",
        f"The {spoken} of the text.",
        ('result = ""', f"for char in {text.name}:", f"    if {code}:", "        result += char", "return result"),
        f"It keeps each character that is among the {spoken}.",
    )


@family
def remove_vowels(draw: Draw) -> Sketch:
    text = draw.parameter("text")
    return sketch(
        draw,
        text,
        ("remove_vowels", "drop_vowels", "without_vowels"),
        "str",
        "remove",
        "the vowels from a text",
        "The text without vowels.",
        (
            'result = ""',
            f"for char in {text.name}:",
            '    if char.lower() not in "aeiou":',
            "        result += char",
            "return result",
        ),
        "It keeps each character that is not a vowel.",
    )


@family
def is_palindrome(draw: Draw) -> Sketch:
    text = draw.parameter("text")
    ignoring, code = draw.pick(((", ignoring case", ".lower()"), ("", "")))
    return sketch(
        draw,
        text,
        ("is_palindrome", "check_palindrome", "reads_same"),
        "bool",
        "check",
        f"whether a text reads the same backwards{ignoring}",
        "True if the text is a palindrome, otherwise False.",
        (f"cleaned = {text.name}{code}", "return cleaned == cleaned[::-1]"),
        "It compares the text with its reverse.",
    )


@family
def change_text(draw: Draw) -> Sketch:
    text, first, second = draw.parameter("text"), word_transform(draw), word_transform(draw)
    return sketch(
        draw,
        text,
        (f"{first.slug}_then_{second.slug}", f"{first.slug}_and_{second.slug}"),
        "str",
        "return",
        f"a text first {first.participle} and then {second.participle}",
        f"The text {first.participle} and then {second.participle}.",
        (f"result = {first.code(text.name)}", f"result = {second.code('result')}", "return result"),
        "It applies the two changes in order.",
    )


@family
def count_text_words(draw: Draw) -> Sketch:
    text, keep = draw.parameter("text"), word_condition(draw)
    return sketch(
        draw,
        text,
        (f"count_{keep.slug}_words", f"{keep.slug}_word_count"),
        "int",
        "count",
        f"the {keep.nouns('words')} in a text",
        f"The number of {keep.nouns('words')}.",
        (
            "count = 0",
            f"for part in {text.name}.split():",
            f"    if {keep.code('part')}:",
            "        count += 1",
            "return count",
        ),
        f"It splits the text and counts each word that {keep.predicate}.",
    )


@family
def keep_text_words(draw: Draw) -> Sketch:
    text, keep = draw.parameter("text"), word_condition(draw)
    return sketch(
        draw,
        text,
        (f"keep_{keep.slug}_words", f"{keep.slug}_words"),
        "str",
        "return",
        f"a text with only the {keep.nouns('words')}",
        f"The {keep.nouns('words')}, joined with spaces.",
        (
            "result = []",
            f"for part in {text.name}.split():",
            f"    if {keep.code('part')}:",
            "        result.append(part)",
            'return " ".join(result)',
        ),
        f"It splits the text and keeps each word that {keep.predicate}.",
    )


@family
def map_text_words(draw: Draw) -> Sketch:
    text, change = draw.parameter("text"), word_transform(draw)
    return sketch(
        draw,
        text,
        (f"{change.slug}_words", f"{change.slug}_each_word"),
        "str",
        "return",
        f"a text with each word {change.participle}",
        f"The text with each word {change.participle}.",
        (
            "result = []",
            f"for part in {text.name}.split():",
            f"    result.append({change.code('part')})",
            'return " ".join(result)',
        ),
        f"It splits the text and joins the words again, each {change.participle}.",
    )


@family
def initials(draw: Draw) -> Sketch:
    text = draw.parameter("text")
    spoken, index = draw.pick((("first", "0"), ("last", "-1")))
    case, code = draw.pick(((" in upper case", ".upper()"), (" in lower case", ".lower()"), ("", "")))
    return sketch(
        draw,
        text,
        (f"{spoken}_letters", f"take_{spoken}_letters"),
        "str",
        "return",
        f"the {spoken} letter of each word in a text{case}",
        f"The {spoken} letters in one string.",
        (
            'result = ""',
            f"for part in {text.name}.split():",
            f"    result += part[{index}]{code}",
            "return result",
        ),
        f"It splits the text and takes the {spoken} letter of each word.",
    )


@family
def shorten_text(draw: Draw) -> Sketch:
    text, k = draw.parameter("text"), draw.rng.randint(3, 15)
    mark = draw.pick(("...", "~", "..", "*"))
    return sketch(
        draw,
        text,
        ("shorten", "truncate", "cut_text"),
        "str",
        "cut",
        f"a text to {k} characters, with '{mark}' added if it was longer",
        f"The text, or its first {k} characters and '{mark}'.",
        (
            f"if len({text.name}) <= {k}:",
            f"    return {text.name}",
            f'return {text.name}[:{k}] + "{mark}"',
        ),
        f"It returns short texts unchanged and cuts the others after {k} characters.",
    )


@family
def pad_text(draw: Draw) -> Sketch:
    text, k, mark = draw.parameter("text"), draw.rng.randint(6, 20), draw.pick("-_*#.0")
    side, code = draw.pick((("left", "result = '$' + result"), ("right", "result = result + '$'")))
    return sketch(
        draw,
        text,
        (f"pad_{side}", f"fill_{side}"),
        "str",
        "pad",
        f"a text on the {side} with '{mark}' until it has {k} characters",
        f"The text with at least {k} characters.",
        (
            f"result = {text.name}",
            f"while len(result) < {k}:",
            f"    {code.replace('$', mark)}",
            "return result",
        ),
        f"It adds '{mark}' on the {side} while the text is too short.",
    )


@family
def char_counts(draw: Draw) -> Sketch:
    text = draw.parameter("text")
    spoken, loop, code = draw.pick(
        (
            ("character", f"for key in {text.name}:", "characters"),
            ("word", f"for key in {text.name}.split():", "words"),
            ("letter, ignoring case,", f"for key in {text.name}.lower():", "letters"),
        )
    )
    return sketch(
        draw,
        text,
        (f"{code}_counts", f"{code}_frequency"),
        "dict[str, int]",
        "count",
        f"how often each {spoken} appears in a text",
        f"A dictionary from the {code} to their counts.",
        ("counts = {}", loop, "    counts[key] = counts.get(key, 0) + 1", "return counts"),
        "It adds one to the entry of each key it meets.",
    )
