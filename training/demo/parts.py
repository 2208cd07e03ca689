"""Interchangeable parts of tasks: conditions on an element and transforms of an element, as words and as code.

What may live here: the shared vocabulary that families combine. It may not know any family or layout.
"""

from __future__ import annotations

from dataclasses import dataclass

from training.demo.instance import Draw


class Coded:
    """Something with a `template` of code: formatting it with a variable, as in `f"{even:number}"`, gives its code."""

    template: str

    def __format__(self, variable: str) -> str:
        return self.template.replace("$", variable)


@dataclass(frozen=True)
class Snippet(Coded):
    """Code alone, in which `$` stands for the variable."""

    template: str


@dataclass(frozen=True)
class Condition(Coded):
    """A test on one element: "even numbers" is `before`, "numbers above 3" is `after`, "is even" is `predicate`."""

    slug: str
    before: str
    after: str
    predicate: str
    template: str

    @property
    def state(self) -> str:
        return self.predicate.removeprefix("is ")

    def nouns(self, noun: str) -> str:
        return f"{self.before}{noun}{self.after}"


@dataclass(frozen=True)
class Transform(Coded):
    """A change of one element: `participle` completes "each number ..."; `template` is the expression."""

    slug: str
    participle: str
    template: str


def number_condition(draw: Draw) -> Condition:
    kind = draw.rng.randrange(11)
    if kind == 0:
        return Condition("even", "even ", "", "is even", "$ % 2 == 0")
    if kind == 1:
        return Condition("odd", "odd ", "", "is odd", "$ % 2 == 1")
    if kind == 2:
        return Condition("positive", "positive ", "", "is positive", "$ > 0")
    if kind == 3:
        return Condition("negative", "negative ", "", "is negative", "$ < 0")
    if kind == 4:
        k = draw.constant(3, 9)
        return Condition("divisible", "", f" divisible by {k}", f"is divisible by {k}", f"$ % {k} == 0")
    if kind == 5:
        low = draw.constant(0, 9)
        high = draw.constant(low + 2, low + 10)
        words = f"between {low} and {high}"
        return Condition("between", "", f" {words}", f"is {words}", f"{low} <= $ <= {high}")
    k = draw.constant(1, 20)
    slug, words, sign = draw.pick(
        (
            ("above", "greater than", ">"),
            ("below", "less than", "<"),
            ("at_least", "of at least", ">="),
            ("at_most", "of at most", "<="),
            ("not", "not equal to", "!="),
        )
    )
    predicate = words.removeprefix("of ")
    return Condition(slug, "", f" {words} {k}", f"is {predicate} {k}", f"$ {sign} {k}")


def word_condition(draw: Draw) -> Condition:
    kind = draw.rng.randrange(8)
    if kind < 3:
        k = draw.constant(2, 6)
        slug, words, sign = draw.pick(
            (("longer", "longer than", ">"), ("shorter", "shorter than", "<"), ("length", "of exactly", "=="))
        )
        if sign == "==":
            return Condition(slug, "", f" of length {k}", f"has length {k}", f"len($) == {k}")
        return Condition(slug, "", f" {words} {k} characters", f"is {words} {k} characters", f"len($) {sign} {k}")
    if kind == 6:
        return Condition("uppercase", "upper case ", "", "is in upper case", "$.isupper()")
    if kind == 7:
        return Condition("lowercase", "lower case ", "", "is in lower case", "$.islower()")
    c = draw.letter()
    if kind == 3:
        return Condition("starting", "", f" starting with '{c}'", f"starts with '{c}'", f"$.startswith('{c}')")
    if kind == 4:
        return Condition("ending", "", f" ending with '{c}'", f"ends with '{c}'", f"$.endswith('{c}')")
    return Condition("containing", "", f" containing '{c}'", f"contains '{c}'", f"'{c}' in $")


def number_transform(draw: Draw) -> Transform:
    kind = draw.rng.randrange(9)
    k = draw.constant(2, 12)
    return (
        Transform("double", "doubled", "$ * 2"),
        Transform("square", "squared", "$ * $"),
        Transform("negate", "negated", "-$"),
        Transform("increase", f"increased by {k}", f"$ + {k}"),
        Transform("reduce", f"reduced by {k}", f"$ - {k}"),
        Transform("multiply", f"multiplied by {k}", f"$ * {k}"),
        Transform("absolute", "replaced by its absolute value", "abs($)"),
        Transform("halve", "halved with integer division", "$ // 2"),
        Transform("remainder", f"replaced by its remainder modulo {k}", f"$ % {k}"),
    )[kind]


def word_transform(draw: Draw) -> Transform:
    kind = draw.rng.randrange(8)
    k = draw.rng.randint(2, 4)
    c = draw.pick("!?-_*#")
    return (
        Transform("upper", "in upper case", "$.upper()"),
        Transform("lower", "in lower case", "$.lower()"),
        Transform("reverse", "reversed", "$[::-1]"),
        Transform("capitalize", "capitalized", "$.capitalize()"),
        Transform("repeat", f"repeated {k} times", f"$ * {k}"),
        Transform("suffix", f"followed by '{c}'", f"$ + '{c}'"),
        Transform("prefix", f"preceded by '{c}'", f"'{c}' + $"),
        Transform("shorten", f"cut to {k} characters", f"$[:{k}]"),
    )[kind]
