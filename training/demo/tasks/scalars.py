"""Families over one or two integers: checks, labels, limits and digits. Knows parts and draws, no layout."""

from __future__ import annotations

from training.demo.instance import Draw, Parameter, Sketch
from training.demo.parts import number_condition, number_transform
from training.demo.registry import family

LABELS = (("low", "high"), ("small", "large"), ("cold", "warm"), ("fail", "pass"), ("cheap", "costly"), ("no", "yes"))


def sketch(
    draw: Draw,
    number: Parameter,
    stems: tuple[str, ...],
    returns: str,
    verb: str,
    rest: str,
    result: str,
    body: tuple[str, ...],
    how: str,
    low: int = -15,
) -> Sketch:
    """A sketch with one integer not below `low`; tests include the drawn constants and their neighbours."""
    extra = tuple((value,) for value in draw.telling_numbers() if value >= low)
    return Sketch(
        draw.name(*stems),
        (number,),
        returns,
        verb,
        rest,
        result,
        body,
        how,
        (draw.pick((7, 12, 20)),),
        draw.cases(lambda: (draw.rng.randint(low, 40),), extra=extra),
    )


@family
def check_number(draw: Draw) -> Sketch:
    number, seek = draw.parameter("int"), number_condition(draw)
    return sketch(
        draw,
        number,
        (f"is_{seek.slug}", f"check_{seek.slug}"),
        "bool",
        "check",
        f"whether a number {seek.predicate}",
        f"True if the number {seek.predicate}, otherwise False.",
        (f"return {seek.code(number.name)}",),
        f"The comparison is True exactly when the number {seek.predicate}.",
    )


def joined_check(draw: Draw, word: str) -> Sketch:
    number, first, second = draw.parameter("int"), number_condition(draw), number_condition(draw)
    return sketch(
        draw,
        number,
        (f"is_{first.slug}_{word}_{second.slug}", f"check_{first.slug}_{word}_{second.slug}"),
        "bool",
        "check",
        f"whether a number {first.predicate} {word} {second.predicate}",
        f"True if the number {first.predicate} {word} {second.predicate}, otherwise False.",
        (f"return {first.code(number.name)} {word} {second.code(number.name)}",),
        f"It joins the two checks with {word}.",
    )


@family
def both_check(draw: Draw) -> Sketch:
    return joined_check(draw, "and")


@family
def either_check(draw: Draw) -> Sketch:
    return joined_check(draw, "or")


@family
def label_number(draw: Draw) -> Sketch:
    number, seek = draw.parameter("int"), number_condition(draw)
    low, high = draw.pick(LABELS)
    return sketch(
        draw,
        number,
        (f"label_{seek.slug}", f"classify_{seek.slug}"),
        "str",
        "return",
        f"'{high}' if a number {seek.predicate} and '{low}' otherwise",
        f"Either '{high}' or '{low}'.",
        (f"if {seek.code(number.name)}:", f'    return "{high}"', f'return "{low}"'),
        f"It returns '{high}' when the number {seek.predicate} and '{low}' in all other cases.",
    )


@family
def label_levels(draw: Draw) -> Sketch:
    number = draw.parameter("int")
    first = draw.constant(2, 10)
    second = draw.constant(first + 3, first + 12)
    low, middle, high = draw.pick((("low", "medium", "high"), ("small", "middle", "large"), ("C", "B", "A")))
    return sketch(
        draw,
        number,
        ("label_level", "grade_level", "classify_level"),
        "str",
        "return",
        f"'{low}' below {first}, '{middle}' below {second} and '{high}' from {second} on",
        f"One of '{low}', '{middle}' and '{high}'.",
        (
            f"if {number.name} < {first}:",
            f'    return "{low}"',
            f"if {number.name} < {second}:",
            f'    return "{middle}"',
            f'return "{high}"',
        ),
        f"It tests the limits {first} and {second} in order.",
    )


@family
def change_number(draw: Draw) -> Sketch:
    number, seek, change = draw.parameter("int"), number_condition(draw), number_transform(draw)
    return sketch(
        draw,
        number,
        (f"{change.slug}_if_{seek.slug}", f"{change.slug}_when_{seek.slug}"),
        "int",
        "return",
        f"a number {change.participle} if it {seek.predicate}, and unchanged otherwise",
        f"The number, {change.participle} if it {seek.predicate}.",
        (f"if {seek.code(number.name)}:", f"    return {change.code(number.name)}", f"return {number.name}"),
        f"It changes the number only when it {seek.predicate}.",
    )


@family
def two_changes(draw: Draw) -> Sketch:
    number, first, second = draw.parameter("int"), number_transform(draw), number_transform(draw)
    return sketch(
        draw,
        number,
        (f"{first.slug}_then_{second.slug}", f"{first.slug}_and_{second.slug}"),
        "int",
        "return",
        f"a number first {first.participle} and then {second.participle}",
        f"The number {first.participle} and then {second.participle}.",
        (f"result = {first.code(number.name)}", f"result = {second.code('result')}", "return result"),
        "It applies the two changes in order.",
    )


@family
def clamp_number(draw: Draw) -> Sketch:
    number = draw.parameter("int")
    low = draw.constant(0, 9)
    high = draw.constant(low + 2, low + 10)
    return sketch(
        draw,
        number,
        ("clamp", "limit", "clamp_number"),
        "int",
        "limit",
        f"a number to the range from {low} to {high}",
        f"The number limited to {low} at least and {high} at most.",
        (
            f"if {number.name} < {low}:",
            f"    return {low}",
            f"if {number.name} > {high}:",
            f"    return {high}",
            f"return {number.name}",
        ),
        f"It raises small numbers to {low} and lowers large numbers to {high}.",
    )


@family
def fizz_buzz(draw: Draw) -> Sketch:
    number = draw.parameter("int")
    first, second = draw.rng.sample(range(2, 10), 2)
    one, two = draw.pick((("Fizz", "Buzz"), ("Ping", "Pong"), ("Tick", "Tock"), ("Red", "Blue"), ("Foo", "Bar")))
    draw.constants += [first, second, first * second]
    return sketch(
        draw,
        number,
        ("fizz_word", "word_for", "choose_word"),
        "str",
        "return",
        f"'{one}' for a number divisible by {first}, '{two}' for one divisible by {second} and '' otherwise",
        f"Either '{one}', '{two}' or an empty string.",
        (
            f"if {number.name} % {first} == 0:",
            f'    return "{one}"',
            f"if {number.name} % {second} == 0:",
            f'    return "{two}"',
            'return ""',
        ),
        f"It tests {first} before {second}, so '{one}' wins when both divide the number.",
    )


def digits(
    draw: Draw, stem: str, verb: str, rest: str, start: str, step: tuple[str, ...], name: str, how: str
) -> Sketch:
    number = draw.parameter("int")
    return sketch(
        draw,
        number,
        (f"{stem}_digits", f"digits_{stem}", f"digit_{stem}"),
        "int",
        verb,
        rest,
        f"The {name} for the digits.",
        (
            f"{name} = {start}",
            f"for digit in str({number.name}):",
            *(f"    {line}" for line in step),
            f"return {name}",
        ),
        how,
        low=0,
    )


@family
def sum_digits(draw: Draw) -> Sketch:
    step = ("total += int(digit)",)
    rest = "the digits of a non-negative number"
    return digits(draw, "sum", "add up", rest, "0", step, "total", "It adds each digit to the total.")


@family
def count_digits(draw: Draw) -> Sketch:
    seek = number_condition(draw)
    step = (f"if {seek.code('int(digit)')}:", "    count += 1")
    rest = f"the digits of a non-negative number where the digit {seek.predicate}"
    return digits(draw, "count", "count", rest, "0", step, "count", f"It counts each digit that {seek.predicate}.")


@family
def smallest_digit(draw: Draw) -> Sketch:
    step = ("best = min(best, int(digit))",)
    rest = "the smallest digit of a non-negative number"
    return digits(draw, "smallest", "find", rest, "9", step, "best", "It keeps the smallest digit so far.")


@family
def largest_digit(draw: Draw) -> Sketch:
    step = ("best = max(best, int(digit))",)
    rest = "the largest digit of a non-negative number"
    return digits(draw, "largest", "find", rest, "0", step, "best", "It keeps the largest digit so far.")


@family
def safe_divide(draw: Draw) -> Sketch:
    number, k = draw.parameter("int"), draw.rng.randint(10, 60)
    default = draw.rng.randint(-1, 5)
    draw.constants.append(0)
    return sketch(
        draw,
        number,
        ("safe_divide", "divide_by", "share_out"),
        "int",
        "divide",
        f"{k} by a number with integer division, returning {default} for zero",
        f"The quotient, or {default} for zero.",
        (f"if {number.name} == 0:", f"    return {default}", f"return {k} // {number.name}"),
        f"It returns {default} for zero, because nothing can be divided by zero.",
    )
