"""Families over one integer or one text: checks, labels, limits and changes.

What may live here: rows about a single value. It may not know any text layout.
"""

from __future__ import annotations

from training.demo.instance import InstanceDraw, Wording
from training.demo.parts import number_condition, number_transform, word_condition, word_transform
from training.demo.tasks.loops import CHANGED, TEST, straight
from training.demo.tasks.rows import (
    CHANGE_NUMBER,
    KEEP_NUMBER,
    KEEP_SOME_NUMBERS,
    KEEP_WORD,
    Slots,
    choice,
    drawn,
    given,
    limits,
    row,
)
from training.demo.tasks.sources import NUMBER, TEXT

LABELS = choice(
    "low high",
    ("low", "high"),
    ("small", "large"),
    ("cold", "warm"),
    ("fail", "pass"),
    ("cheap", "costly"),
    ("no", "yes"),
)
LEVELS = choice("lower middle upper", ("low", "medium", "high"), ("small", "middle", "large"), ("C", "B", "A"))


def divisors(draw: InstanceDraw) -> Slots:
    """Two divisors, and the words for them."""
    first, second = draw.rng.sample(range(2, 10), 2)
    one, two = draw.pick((("Fizz", "Buzz"), ("Ping", "Pong"), ("Tick", "Tock"), ("Red", "Blue"), ("Foo", "Bar")))
    draw.constants += [first, second, first * second]
    return {"first": first, "second": second, "one": one, "two": two}


def dividend(draw: InstanceDraw) -> Slots:
    """A divisor, and the words for its division by zero."""
    k, default = draw.rng.randint(10, 60), draw.rng.randint(-1, 5)
    draw.constants.append(0)
    return {"k": k, "default": default}


row(
    "check_number",
    NUMBER,
    (KEEP_NUMBER,),
    straight("bool", f"return {TEST}"),
    Wording(
        ("is_{keep.slug}", "check_{keep.slug}"),
        "check",
        "whether a number {keep.predicate}",
        "True if the number {keep.predicate}, otherwise False.",
        "Test whether the number {keep.predicate}.",
    ),
)
for name, word in (("both_check", "and"), ("either_check", "or")):
    row(
        name,
        NUMBER,
        (drawn("first", number_condition), drawn("second", number_condition), given(word=word)),
        straight("bool", "return {first:{item}} {word} {second:{item}}"),
        Wording(
            ("is_{first.slug}_{word}_{second.slug}", "check_{first.slug}_{word}_{second.slug}"),
            "check",
            "whether a number {first.predicate} {word} {second.predicate}",
            "True if the number {first.predicate} {word} {second.predicate}, otherwise False.",
            "Test whether the {noun} {first.predicate} {word} {second.predicate}.",
        ),
    )
row(
    "label_number",
    NUMBER,
    (KEEP_SOME_NUMBERS, LABELS),
    straight("str", f"if {TEST}:", '    return "{high}"', 'return "{low}"'),
    Wording(
        ("label_{keep.slug}", "classify_{keep.slug}"),
        "return",
        "'{high}' if a number {keep.predicate} and '{low}' otherwise",
        "Either '{high}' or '{low}'.",
        "It returns '{high}' when the number {keep.predicate} and '{low}' in all other cases.",
    ),
)
row(
    "label_levels",
    NUMBER,
    (limits(2, 10, 3, 12), LEVELS),
    straight(
        "str",
        "if {item} < {low}:",
        '    return "{lower}"',
        "if {item} < {high}:",
        '    return "{middle}"',
        'return "{upper}"',
    ),
    Wording(
        ("label_level", "grade_level", "classify_level"),
        "return",
        "'{lower}' below {low}, '{middle}' below {high} and '{upper}' from {high} on",
        "One of '{lower}', '{middle}' and '{upper}'.",
        "It tests the limits {low} and {high} in order.",
    ),
)
row(
    "change_number",
    NUMBER,
    (KEEP_SOME_NUMBERS, CHANGE_NUMBER),
    straight("int", f"if {TEST}:", f"    return {CHANGED}", "return {item}"),
    Wording(
        ("{change.slug}_if_{keep.slug}", "{change.slug}_when_{keep.slug}"),
        "return",
        "a number {change.participle} if it {keep.predicate}, and unchanged otherwise",
        "The number, {change.participle} if it {keep.predicate}.",
        "It changes the number only when it {keep.predicate}.",
    ),
)
row(
    "clamp_number",
    NUMBER,
    (limits(0, 9, 2, 10),),
    straight(
        "int",
        "if {item} < {low}:",
        "    return {low}",
        "if {item} > {high}:",
        "    return {high}",
        "return {item}",
    ),
    Wording(
        ("clamp", "limit", "clamp_number"),
        "limit",
        "a number to the range from {low} to {high}",
        "The number limited to {low} at least and {high} at most.",
        "It raises small numbers to {low} and lowers large numbers to {high}.",
    ),
)
row(
    "fizz_buzz",
    NUMBER,
    (divisors,),
    straight(
        "str",
        "if {item} % {first} == 0:",
        '    return "{one}"',
        "if {item} % {second} == 0:",
        '    return "{two}"',
        'return ""',
    ),
    Wording(
        ("fizz_word", "word_for", "choose_word"),
        "return",
        "'{one}' for a number divisible by {first}, '{two}' for one divisible by {second} and '' otherwise",
        "Either '{one}', '{two}' or an empty string.",
        "It tests {first} before {second}, so '{one}' wins when both divide the number.",
    ),
)
row(
    "safe_divide",
    NUMBER,
    (dividend,),
    straight("int", "if {item} == 0:", "    return {default}", "return {k} // {item}"),
    Wording(
        ("safe_divide", "divide_by", "share_out"),
        "divide",
        "{k} by a number with integer division, returning {default} for zero",
        "The quotient, or {default} for zero.",
        "It returns {default} for zero, because nothing can be divided by zero.",
    ),
)
for name, word in (("check_text_and", "and"), ("check_text_or", "or")):
    row(
        name,
        TEXT,
        (drawn("first", word_condition), drawn("second", word_condition), given(word=word)),
        straight("bool", "return {first:{item}} {word} {second:{item}}"),
        Wording(
            ("is_{first.slug}_{word}_{second.slug}", "check_{first.slug}_{word}_{second.slug}"),
            "check",
            "whether a text {first.predicate} {word} {second.predicate}",
            "True if the text {first.predicate} {word} {second.predicate}, otherwise False.",
            "Test whether the {noun} {first.predicate} {word} {second.predicate}.",
        ),
    )
row(
    "check_text",
    TEXT,
    (KEEP_WORD,),
    straight("bool", f"return {TEST}"),
    Wording(
        ("is_{keep.slug}", "check_{keep.slug}"),
        "check",
        "whether a text {keep.predicate}",
        "True if the text {keep.predicate}, otherwise False.",
        "Test whether the text {keep.predicate}.",
    ),
)
for name, source, transform in (("two_changes", NUMBER, number_transform), ("change_text", TEXT, word_transform)):
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
            "First take the {noun} {first.participle}; then take that {second.participle}.",
        ),
    )
